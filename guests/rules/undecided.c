//! The C library and the kernel are given what was never written, and decide by it. What is not marked is right: nothing
//! is decided by it.
//! flags: -fno-builtin
#include "guest.h"
#include <pthread.h>
#include <stdarg.h>
#include <strings.h>
#include <wchar.h>

enum { SIZE = 40 };
static volatile long sink;
static void *volatile kept;
static char room[512];
static wchar_t wide_room[64];
static int right;

// Bytes that somebody has written if all is to be right. Each time it is other memory.
static void *bytes(void)
{
    char *s = malloc(SIZE);
    if (right)
        memset(s, 0, SIZE);
    s[SIZE - 1] = 0;
    return s;
}

static int number(void)
{
    int *volatile n = bytes();
    return *n;
}

static double fraction(void)
{
    double *volatile n = bytes();
    return *n;
}

static int compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return x - y;
}

static void says(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(room, sizeof room, format, list);
    va_end(list);
}

static void strings(void)
{
    sink = (long)strlen(bytes()); // MARK: strlen
    sink = (long)strnlen(bytes(), 9); // MARK: strnlen
    sink = strcmp(bytes(), "text"); // MARK: strcmp
    sink = strcmp("text", bytes()); // MARK: strcmp, second
    sink = strncmp(bytes(), "text", 3); // MARK: strncmp
    sink = strcasecmp(bytes(), "text"); // MARK: strcasecmp
    kept = strchr(bytes(), 'q'); // MARK: strchr
    kept = strrchr(bytes(), 'q'); // MARK: strrchr
    kept = memchr(bytes(), 'q', 9); // MARK: memchr
    kept = strstr(bytes(), "qq"); // MARK: strstr
    sink = (long)strspn(bytes(), "xy"); // MARK: strspn
    kept = strcpy(room, bytes()); // MARK: strcpy
    kept = strcat(bytes(), "x"); // MARK: strcat
    kept = strdup(bytes()); // MARK: strdup
    puts(bytes()); // MARK: puts
    sink = atoi(bytes()); // MARK: atoi
    sink = (long)strtod(bytes(), NULL); // MARK: strtod
    sink = memcmp(bytes(), room, SIZE); // MARK: memcmp
    sink = memcmp(room, bytes(), SIZE); // MARK: memcmp, second
}

// Prints what is left when so many numbers have been taken.
static void rest(int taken, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    while (taken--)
        (void)va_arg(list, int);
    vsprintf(room, format, list);
    va_end(list);
}

static void formats(void)
{
    printf("%d\n", number()); // MARK: %d
    printf("%x\n", number()); // MARK: %x
    printf("%s %c\n", "text", number()); // MARK: %c
    printf("%g\n", fraction()); // MARK: %g
    printf("%*d\n", number(), 3); // MARK: *
    printf("%2$x %1$d\n", 3, number()); // MARK: %2$x
    printf("%d%d%d%d%d%d%x\n", 1, 2, 3, 4, 5, 6, number()); // MARK: %x on the stack
    printf("%s\n", (char *)bytes()); // MARK: %s
    sprintf(room, "%x", number()); // MARK: sprintf
    snprintf(room, sizeof room, "%x", number()); // MARK: snprintf
    fprintf(stdout, "%x\n", number()); // MARK: fprintf
    swprintf(wide_room, 64, L"%x", number()); // MARK: swprintf
    says("%d", number()); // MARK: vsnprintf
    says("%x", number()); // MARK: vsnprintf %x
    says("%g %d", fraction(), 3); // MARK: vsnprintf %g
    says("%d%s%c%d%d%d%x", 1, "text", 'c', 4, 5, 6, number()); // MARK: vsnprintf in memory, again
    says("%g%g%g%g%g%g%g%g%g", 1., 2., 3., 4., 5., 6., 7., 8., fraction()); // MARK: vsnprintf, ninth %g, again
    // Some were taken by others.
    rest(2, "%x %d", 1, 2, number(), 3); // MARK: rest
    rest(7, "%x", 1, 2, 3, 4, 5, 6, 7, number()); // MARK: rest in memory, again
    rest(2, "%d", number(), 1, 3, number());
    says("%d", 3, number(), fraction());
    // Nobody asks for it.
    printf("%d\n", 3, number(), fraction());
    printf("%.2s\n", "text");
}

static void others(void)
{
    kept = memset(room, 0, (size_t)number()); // MARK: memset
    kept = memcpy(room, wide_room, (size_t)number()); // MARK: memcpy
    kept = malloc((size_t)number()); // MARK: malloc
    int list[4] = {4, 3, 2, number()};
    qsort(list, 4, sizeof *list, compare); // MARK: qsort
    int sorted[3] = {1, 2, 3}, wanted = number();
    kept = bsearch(&wanted, sorted, 3, sizeof *sorted, compare); // MARK: bsearch
    sink = lseek(number(), 0, SEEK_CUR); // MARK: lseek
    sink = write(1, "", (size_t)number()); // MARK: write
}

static void *allocates(void *unused)
{
    for (size_t i = 0; i < 1000; i++) {
        kept = malloc(i);
        free(kept);
    }
    return unused;
}

// Copies, and comparisons that come to an end before.
static void nothing(void)
{
    char copy[SIZE], *first = bytes(), *second = bytes();
    memcpy(copy, first, SIZE);
    memmove(copy, copy + 1, SIZE - 1);
    first[0] = 'x';
    second[0] = 'y';
    sink = memcmp(first, second, SIZE);
    sink = strcmp(first, second);
    first[1] = 0;
    sink = (long)strlen(first);
    second[1] = 'z';
    kept = memchr(second, 'z', SIZE);
    kept = strncpy(room, second, 2);
    // What the allocator makes of memory is its own matter, also where a thread leaves it to others.
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, allocates, NULL) == 0);
        pthread_join(thread, NULL);
    }
}

int main(int argc, char **argv)
{
    (void)argv;
    right = argc > 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    strings();
    formats();
    others();
    nothing();
    return 0;
}
