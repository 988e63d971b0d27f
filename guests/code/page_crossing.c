//! Places one instruction at every position across a page boundary.
#include "guest.h"
#include <setjmp.h>
#include <sys/mman.h>

static sigjmp_buf back;
static volatile uintptr_t where;
static void caught(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    where = (uintptr_t)info->si_addr;
    siglongjmp(back, 1);
}

int main(void)
{
    enum { PAGE = 4096 };
    unsigned char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(pages != MAP_FAILED);
    const unsigned char code[] = {0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 0x48, 0x01, 0xf8, 0xc3};
    uint64_t sum = MIX_START;
    for (size_t before = 0; before <= sizeof code; before++) {
        unsigned char *at = pages + PAGE - before;
        memcpy(at, code, sizeof code);
        sum = mix(sum, ((uint64_t(*)(uint64_t))(uintptr_t)at)(before));
    }
    // With the second page gone, the instruction that crosses faults at the boundary.
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGSEGV, &action, NULL) == 0);
    memcpy(pages + PAGE - 5, code, 5);
    must(mprotect(pages + PAGE, PAGE, PROT_NONE) == 0);
    if (sigsetjmp(back, 1) == 0)
        ((uint64_t(*)(uint64_t))(uintptr_t)(pages + PAGE - 5))(0);
    printf("%016lx fault at boundary %d\n", sum, where == (uintptr_t)(pages + PAGE));
    return 0;
}
