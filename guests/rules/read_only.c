//! Keeps the only pointer to a block in memory that cannot be written any more, or forgets to put it there.
#include "guest.h"
#include <sys/mman.h>

int main(int argc, char **argv)
{
    (void)argv;
    char **page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(page != MAP_FAILED);
    char *settings = malloc(300); // MARK: fault
    strcpy(settings, "colour=red");
    if (argc > 1)
        page[7] = settings;
    must(mprotect(page, 4096, PROT_READ) == 0);
    puts(settings);
    return 0;
}
