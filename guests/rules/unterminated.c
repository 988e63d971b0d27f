//! Strings without an end, in blocks that are full: functions that read them go on past the block.
//! flags: -fno-builtin
#include "guest.h"
#include <strings.h>
#include <wchar.h>

static volatile long sink;
static char room[512];
static wchar_t wide_room[128];

static char *filled(size_t size, int end)
{
    char *s = malloc(size);
    memset(s, 'x', size);
    if (end)
        s[size - 1] = 0;
    return s;
}

int main(int argc, char **argv)
{
    (void)argv;
    int end = argc > 1;
    // What is behind it in memory does not matter, nor whether vectors are read.
    size_t size = argc > 2 ? 136 : 24;
    char *s = filled(size, end);
    char *longer = filled(size + 100, 1);
    wchar_t *wide = (wchar_t *)filled(size, 0);
    wchar_t *wide_longer = (wchar_t *)filled(size + 96, 0);
    if (end)
        wide[size / 4 - 1] = 0;
    wide_longer[size / 4 + 23] = 0;
    memset(room, 0, sizeof room);

    sink = strcmp(s, longer); // MARK: strcmp
    sink = strcmp(longer, s); // MARK: strcmp, second
    sink = strncmp(s, longer, size + 9); // MARK: strncmp
    sink = strcasecmp(longer, s); // MARK: strcasecmp
    sink = strncasecmp(s, longer, size + 9); // MARK: strncasecmp
    sink = strcoll(s, longer); // MARK: strcoll
    sink = strchr(s, 'q') != NULL; // MARK: strchr
    sink = strchrnul(s, 'q') != NULL; // MARK: strchrnul
    sink = strrchr(s, 'q') != NULL; // MARK: strrchr
    sink = strstr(s, "qq") != NULL; // MARK: strstr
    sink = strstr(longer, s) != NULL; // MARK: strstr, second
    sink = strcasestr(s, "qq") != NULL; // MARK: strcasestr
    sink = strpbrk(s, "qr") != NULL; // MARK: strpbrk
    sink = (long)strspn(s, "xy"); // MARK: strspn
    sink = (long)strcspn("text", s); // MARK: strcspn
    sink = (long)strlen(s); // MARK: strlen
    strcpy(room, s); // MARK: strcpy
    stpcpy(room, s); // MARK: stpcpy
    strncpy(room, s, size + 5); // MARK: strncpy
    room[0] = 0;
    strcat(room, s); // MARK: strcat
    room[0] = 0;
    strncat(room, s, size + 5); // MARK: strncat
    sink = strtok(room, s) != NULL; // MARK: strtok
    sink = wcscmp(wide, wide_longer); // MARK: wcscmp
    sink = wcsncmp(wide_longer, wide, size / 4 + 1); // MARK: wcsncmp
    sink = wcschr(wide, L'q') != NULL; // MARK: wcschr
    sink = wcsrchr(wide, L'q') != NULL; // MARK: wcsrchr
    sink = (long)wcslen(wide); // MARK: wcslen
    wcscpy(wide_room, wide); // MARK: wcscpy

    // These stop in time.
    sink = strncmp(s, longer, size);
    sink = strcmp(s, "xxxy");
    sink = strncasecmp(s, "XXXXY", size + 1);
    sink = strchr(s, 'x') != NULL;
    sink = strstr(s, "xxx") != NULL;
    sink = strpbrk(s, "yx") != NULL;
    sink = (long)strspn(s, "y");
    strncpy(room, s, size);
    sink = wcscmp(wide, L"");
    sink = wcsncmp(wide, wide_longer, size / 4);

    free(s);
    free(longer);
    free(wide);
    free(wide_longer);
    return 0;
}
