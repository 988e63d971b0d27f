//! Writes past the end of a global structure, through a pointer to the last of its fields.
#include "guest.h"

struct settings {
    int level;
    char key[8];
    char value[8];
};

struct settings settings;
int after[4] = {1, 2, 3, 4};

static __attribute__((noinline)) void fill(char *to, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = (char)('a' + i); // MARK: fault
}

int main(int argc, char **argv)
{
    (void)argv;
    fill(settings.key, sizeof settings.key);
    fill(settings.value, argc > 1 ? 8 : 9); // MARK: cause
    printf("%c%c%d\n", settings.key[0], settings.value[7], after[0]);
    return 0;
}
