//! Loses blocks of many sizes, each with a freed one behind it: what the allocator notes of free memory looks like
//! pointers into them.
#include "guest.h"

static char *kept[200];

int main(int argc, char **argv)
{
    (void)argv;
    static char *between[200];
    for (int i = 0; i < 200; i++) {
        kept[i] = malloc((size_t)i + 1); // MARK: fault
        between[i] = malloc(2000);
        kept[i][0] = 1;
    }
    for (int i = 0; i < 200; i++)
        free(between[i]);
    memset(between, 0, sizeof between);
    char *last = malloc(5000 + 8);
    last[0] = 1;
    for (int i = 0; i < 200; i++) {
        if (argc > 1)
            free(kept[i]);
        kept[i] = NULL;
    }
    free(last);
    puts("done");
    return 0;
}
