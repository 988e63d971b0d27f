//! Sets much more memory aside than there is, uses a little of it, and reads behind the end of a small block.
#include "guest.h"
#include <sys/mman.h>

enum { SHIFT = 41 };

int main(int argc, char **argv)
{
    (void)argv;
    size_t all = (size_t)1 << SHIFT;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *room = mmap(NULL, all, PROT_READ | PROT_WRITE, flags, -1, 0);
    must(room != MAP_FAILED);
    char **first = (char **)room, **last = (char **)(room + all - sizeof *last);
    char *volatile large = malloc((size_t)3 << 30);
    must(large != NULL);
    large[0] = 1;
    *first = calloc(8, 1);
    *last = *first;
    char *volatile small = *last;
    printf("%d\n", small[7 + (argc == 1)] + large[0]); // MARK: fault
    free(small);
    free(large);
    return 0;
}
