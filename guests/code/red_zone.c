//! Leaf functions keep values below the stack pointer while signals arrive.
#include "guest.h"
#include <sys/time.h>

static volatile sig_atomic_t ticks;
static void tick(int signal)
{
    (void)signal;
    volatile char noise[512];
    for (int i = 0; i < 512; i++)
        noise[i] = (char)0xee;
    ticks += noise[7] != 0;
}

static __attribute__((noinline)) uint64_t leaf(uint64_t x)
{
    uint64_t out;
    __asm__ volatile("mov %1, -8(%%rsp)\n mov %1, -64(%%rsp)\n mov %1, -128(%%rsp)\n mov $2000, %%ecx\n"
                     "1: incq -8(%%rsp)\n mov -64(%%rsp), %%rax\n add -128(%%rsp), %%rax\n add %%rax, -64(%%rsp)\n"
                     "rolq $3, -128(%%rsp)\n dec %%ecx\n jnz 1b\n"
                     "mov -8(%%rsp), %0\n xor -64(%%rsp), %0\n xor -128(%%rsp), %0"
                     : "=&r"(out) : "r"(x) : "rax", "rcx", "memory", "cc");
    return out;
}

int main(void)
{
    uint64_t quiet = leaf(77);
    struct sigaction action = {.sa_handler = tick};
    must(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    must(setitimer(ITIMER_REAL, &every, NULL) == 0);
    while (ticks < 40)
        must(leaf(77) == quiet);
    must(setitimer(ITIMER_REAL, &never, NULL) == 0);
    printf("%016lx\n", quiet);
    return 0;
}
