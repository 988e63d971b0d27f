//! Takes away and gives back each permission of a page.
#include "guest.h"
#include <setjmp.h>
#include <sys/mman.h>

static sigjmp_buf back;
static volatile int code;
static void caught(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    code = info->si_code;
    siglongjmp(back, 1);
}

static const char *attempt(volatile unsigned char *page, int what)
{
    if (sigsetjmp(back, 1))
        return code == SEGV_ACCERR ? "refused" : "unmapped";
    if (what == 0)
        (void)*page;
    else if (what == 1)
        *page = 0xc3;
    else
        ((void (*)(void))(uintptr_t)page)();
    return "allowed";
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGSEGV, &action, NULL) == 0);
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(page != MAP_FAILED);
    *page = 0xc3;
    const int protections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC,
                               PROT_READ | PROT_WRITE | PROT_EXEC, PROT_READ, PROT_NONE};
    for (size_t i = 0; i < sizeof protections / sizeof *protections; i++) {
        must(mprotect(page, 4096, protections[i]) == 0);
        printf("%d: read %s, write %s, execute %s\n", protections[i], attempt(page, 0), attempt(page, 1),
               attempt(page, 2));
    }
    return 0;
}
