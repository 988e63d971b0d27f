//! A signal frame shows the last fault of the thread that gets it, whatever other threads have done since: the
//! address, the number of the trap and its error code. It shows the alternate stack of that thread, too.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <ucontext.h>

static char *pages;
static sem_t ready, go, seen;

static void show(int sig, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    const greg_t *r = uc->uc_mcontext.gregs;
    long at = r[REG_CR2] ? (char *)r[REG_CR2] - pages : -1;
    char line[128];
    int n = snprintf(line, sizeof line, "signal %d code %d: address %ld, trap %lld, error %lld, stack %zu\n", sig,
                     info->si_code, at, r[REG_TRAPNO], r[REG_ERR], uc->uc_stack.ss_size);
    must(write(1, line, (size_t)n) == n);
    if (sig == SIGSEGV)
        must(mprotect(pages, 8 * 4096, PROT_READ | PROT_WRITE) == 0);
    else
        sem_post(&seen);
}

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) == -1)
        must(errno == EINTR);
}

static void forbid(void)
{
    must(mprotect(pages, 8 * 4096, PROT_NONE) == 0);
}

static void *work(void *own_fault)
{
    if (own_fault) {
        stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
        must(sigaltstack(&stack, NULL) == 0);
        forbid();
        pages[4096 * 3 + 5] = 1;
    }
    sem_post(&ready);
    wait_for(&go);
    return NULL;
}

int main(void)
{
    pages = mmap(NULL, 8 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(pages != MAP_FAILED);
    sem_init(&ready, 0, 0);
    sem_init(&go, 0, 0);
    sem_init(&seen, 0, 0);
    struct sigaction action = {.sa_sigaction = show, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);
    pthread_t threads[2];
    for (intptr_t i = 0; i < 2; i++) {
        must(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
        wait_for(&ready);
    }
    forbid();
    must(pages[4096 * 6 + 9] == 0);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 2; i++) {
            must(pthread_kill(threads[i], SIGUSR1) == 0);
            wait_for(&seen);
            must(raise(SIGUSR1) == 0);
            wait_for(&seen);
        }
    sem_post(&go);
    sem_post(&go);
    must(pthread_join(threads[0], NULL) == 0 && pthread_join(threads[1], NULL) == 0);
    return 0;
}
