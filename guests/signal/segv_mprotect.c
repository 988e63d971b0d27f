//! Repairs the faulting page in the handler, so that the instruction runs again and succeeds.
#include "guest.h"
#include <sys/mman.h>

enum { PAGES = 40, PAGE = 4096 };
static char *area;
static volatile int faults;

static void repair(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    char *at = info->si_addr;
    if (at < area || at >= area + PAGES * PAGE)
        _exit(98);
    faults++;
    char *page = area + (at - area) / PAGE * PAGE;
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE))
        _exit(97);
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGSEGV, &action, NULL) == 0);
    area = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(area != MAP_FAILED);
    for (int i = 0; i < PAGES; i++)
        area[i * PAGE + i] = (char)(i + 1);
    uint64_t before = 0x1122334455667788;
    // A read-modify-write with the carry flag live across the fault.
    must(mprotect(area, PAGE, PROT_READ) == 0);
    uint64_t carry = 0;
    *(volatile uint64_t *)(area + 0) = before;
    must(mprotect(area, PAGE, PROT_READ) == 0);
    __asm__ volatile("stc\n adcq $5, (%1)\n adcq $0, %0" : "+r"(carry) : "r"(area) : "memory", "cc");
    printf("%d faults, %016lx carry %lu\n", faults, *(volatile uint64_t *)area, carry);
    printf("%016lx\n", mix_bytes(MIX_START, area, PAGES * PAGE));
    return 0;
}
