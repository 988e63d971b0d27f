//! String instructions that fault halfway: registers show how far they came, and repair lets them finish.
#include "guest.h"
#include <sys/mman.h>
#include <ucontext.h>

enum { PAGE = 4096 };
static char *area;
static volatile uint64_t left, at;

static void repair(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    left = (uint64_t)regs[REG_RCX];
    at = (uint64_t)((char *)regs[REG_RDI] - area);
    if ((uintptr_t)info->si_addr / PAGE * PAGE != (uintptr_t)(area + PAGE))
        _exit(98);
    if (mprotect(area + PAGE, PAGE, PROT_READ | PROT_WRITE))
        _exit(97);
}

int main(void)
{
    area = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(area != MAP_FAILED);
    struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGSEGV, &action, NULL) == 0);
    for (int width = 0; width < 2; width++) {
        must(mprotect(area + PAGE, PAGE, PROT_NONE) == 0);
        char *target = area + PAGE - 800;
        uint64_t count = width ? 200 : 1600;
        if (width)
            __asm__ volatile("rep stosq" : "+D"(target), "+c"(count) : "a"(0x1122334455667788) : "memory");
        else
            __asm__ volatile("rep stosb" : "+D"(target), "+c"(count) : "a"(0x5a) : "memory");
        printf("left %lu at %lu, then %lu at %ld\n", left, at, count, (long)(target - area));
    }
    printf("%016lx\n", mix_bytes(MIX_START, area, 2 * PAGE));
    return 0;
}
