//! Keeps the only pointer to a block where another block was before, in memory that was mapped there since, or forgets to
//! put it there.
#include "guest.h"
#include <sys/mman.h>

int main(int argc, char **argv)
{
    (void)argv;
    enum { LARGE = 1 << 20 };
    char *large = malloc(LARGE);
    must(large);
    memset(large, 1, LARGE);
    char *page = (char *)(((uintptr_t)large + LARGE / 2) & ~(uintptr_t)4095);
    free(large);
    char **again = mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    must((char *)again == page);
    char *settings = malloc(300); // MARK: fault
    strcpy(settings, "colour=red");
    if (argc > 1)
        again[7] = settings;
    puts(settings);
    return 0;
}
