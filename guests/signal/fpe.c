//! Handles integer division by zero and overflow, and an unmasked SSE exception.
//! libs: -lm
#include "guest.h"
#include <fenv.h>
#include <setjmp.h>

static sigjmp_buf back;
static volatile int code;

static void caught(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    code = info->si_code;
    siglongjmp(back, 1);
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGFPE, &action, NULL) == 0);
    volatile int zero = 0, least = -2147483647 - 1, minus = -1;
    volatile double fzero = 0.0;
    if (sigsetjmp(back, 1) == 0)
        printf("%d\n", 7 / zero);
    else
        printf("divide %d\n", code);
    if (sigsetjmp(back, 1) == 0)
        printf("%d\n", least / minus);
    else
        printf("overflow %d\n", code);
    if (sigsetjmp(back, 1) == 0) {
        feenableexcept(FE_DIVBYZERO);
        printf("%f\n", 1.0 / fzero);
    } else {
        printf("float %d\n", code);
    }
    fedisableexcept(FE_ALL_EXCEPT);
    return 0;
}
