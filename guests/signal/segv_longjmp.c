//! Recovers from bad reads and writes by jumping out of the handler.
#include "guest.h"
#include <setjmp.h>

static sigjmp_buf back;
static void *volatile where;
static volatile int code;

static void caught(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    where = info->si_addr;
    code = info->si_code;
    siglongjmp(back, 1);
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGSEGV, &action, NULL) == 0);
    for (volatile uintptr_t address = 8; address < 0x4000; address += 1024) {
        if (sigsetjmp(back, 1) == 0) {
            if (address % 2048 < 1024)
                *(volatile int *)address = 1;
            else
                (void)*(volatile int *)address;
            puts("no fault");
        } else {
            printf("fault at %p code %d\n", where, code);
        }
    }
    if (sigsetjmp(back, 1) == 0) {
        *(volatile char *)"constant" = 'x';
    } else {
        printf("read-only %d\n", code);
    }
    if (sigsetjmp(back, 1) == 0)
        (void)*(volatile char *)0x8000000000000000ul;
    printf("non-canonical %p %d\n", where, code);
    return 0;
}
