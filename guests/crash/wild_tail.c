//! Jumps, rather than calls, through a table with a bad entry, beside a thread that goes on.
//! signal: SIGSEGV
//! flags: -pthread
#include "guest.h"
#include <pthread.h>

static void *volatile table[4];
static volatile uint64_t turns;

static void *busy(void *unused)
{
    for (;;)
        turns++;
    return unused;
}

static __attribute__((noinline)) void dispatch(int n)
{
    __asm__ volatile("jmp *(%0,%1,8)" : : "r"(table), "r"((long)n) : "memory"); // MARK: fault
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, busy, NULL);
    while (turns < 1000)
        sched_yield();
    table[2] = (void *)0x1234567; // MARK: cause
    say("jumping");
    dispatch(2);
    return 0;
}
