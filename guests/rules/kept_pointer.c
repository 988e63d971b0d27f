//! Keeps a pointer into a block that is reallocated and happens to stay where it was.
//! flags: -Wno-use-after-free
#include "guest.h"

static __attribute__((noipa)) void *grow(void *block, size_t size)
{
    void *out = realloc(block, size);
    if (out == NULL)
        exit(2);
    return out;
}

int main(int argc, char **argv)
{
    (void)argv;
    char *text = malloc(2000);
    strcpy(text, "text");
    char *volatile end = text + 4;
    char *longer = grow(text, 4000);
    if (argc > 1 && longer != text)
        end = longer + 4;
    *end = '!'; // MARK: fault
    end[1] = 0;
    puts(longer);
    free(longer);
    return 0;
}
