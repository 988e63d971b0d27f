//! Two views of the same shared memory in one process.
#include "guest.h"
#include <sys/mman.h>

int main(void)
{
    enum { SIZE = 8192 };
    char *first = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(first != MAP_FAILED);
    strcpy(first + 5000, "seen twice");
    // A length of zero duplicates a shared mapping.
    char *second = mremap(first, 0, SIZE, MREMAP_MAYMOVE);
    must(second != MAP_FAILED && second != first);
    puts(second + 5000);
    second[5000] = 'S';
    puts(first + 5000);
    must(munmap(first, SIZE) == 0);
    puts(second + 5000);
    return 0;
}
