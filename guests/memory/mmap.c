//! Maps, splits, unmaps and replaces anonymous memory; holes fault.
#include "guest.h"
#include <setjmp.h>
#include <sys/mman.h>

enum { PAGE = 4096 };
static sigjmp_buf back;
static void caught(int signal) { siglongjmp(back, signal); }

static int readable(volatile char *at)
{
    if (sigsetjmp(back, 1))
        return 0;
    (void)*at;
    return 1;
}

int main(void)
{
    signal(SIGSEGV, caught);
    char *area = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(area != MAP_FAILED);
    memset(area, 0x5a, 16 * PAGE);
    must(munmap(area + 3 * PAGE, 2 * PAGE) == 0);
    must(mmap(area + 8 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == area + 8 * PAGE);
    must(mmap(area, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
    must(errno == EEXIST);
    for (int i = 0; i < 16; i++)
        printf("%c%02x ", readable(area + i * PAGE) ? 'r' : '-', readable(area + i * PAGE) ? area[i * PAGE] : 0);
    puts("");
    must(madvise(area + 10 * PAGE, PAGE, MADV_DONTNEED) == 0 && area[10 * PAGE] == 0);
    must(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
    must(munmap(area + 1, PAGE) == -1 && errno == EINVAL);
    unsigned char resident[16];
    must(mincore(area, 2 * PAGE, resident) == 0);
    must(munmap(area, 16 * PAGE) == 0 && !readable(area));
    puts("done");
    return 0;
}
