//! A mapping that grows downwards by touching the page below it.
#include "guest.h"
#include <sys/mman.h>

int main(void)
{
    enum { PAGE = 4096, ROOM = 600 };
    char *area = mmap(NULL, ROOM * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(area != MAP_FAILED && munmap(area, ROOM * PAGE) == 0);
    char *top = area + (ROOM - 1) * PAGE;
    char *got = mmap(top, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    must(got == top);
    for (int i = 0; i < 100; i++)
        top[-i * PAGE] = (char)i;
    uint64_t sum = MIX_START;
    for (int i = 0; i < 100; i++)
        sum = mix(sum, (uint64_t)top[-i * PAGE]);
    printf("%016lx\n", sum);
    return 0;
}
