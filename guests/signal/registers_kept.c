//! Interrupts a loop that keeps all registers, flags and vectors live, and finds none disturbed.
#include "guest.h"
#include <sys/time.h>

static volatile sig_atomic_t ticks;
static void tick(int signal)
{
    (void)signal;
    volatile double noise = ticks * 1.5;
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n pxor %%xmm7, %%xmm7\n std\n cld\n stc" : : : "xmm0", "xmm7", "cc");
    noise += 1;
    ticks++;
}

// Runs a million rounds that rotate values through the registers with the carry flag as a carrier.
static __attribute__((noinline)) uint64_t churn(void)
{
    uint64_t out;
    __asm__ volatile(
        "mov $1, %%rax\n mov $2, %%rbx\n mov $3, %%rdx\n mov $4, %%rsi\n mov $5, %%rdi\n"
        "mov $6, %%r8\n mov $7, %%r9\n mov $8, %%r10\n mov $9, %%r11\n mov $10, %%r12\n"
        "mov $11, %%r13\n mov $12, %%r14\n mov $13, %%r15\n"
        "movq %%rax, %%xmm0\n movq %%rbx, %%xmm7\n mov $1000000, %%rcx\n clc\n"
        "1: adc %%rbx, %%rax\n adc %%rdx, %%rbx\n adc %%rsi, %%rdx\n adc %%rdi, %%rsi\n"
        "adc %%r8, %%rdi\n adc %%r9, %%r8\n adc %%r10, %%r9\n adc %%r11, %%r10\n"
        "adc %%r12, %%r11\n adc %%r13, %%r12\n adc %%r14, %%r13\n adc %%r15, %%r14\n"
        "adc %%rax, %%r15\n paddq %%xmm7, %%xmm0\n paddq %%xmm0, %%xmm7\n"
        "mov %%rax, -8(%%rsp)\n lea -1(%%rcx), %%rcx\n adc -8(%%rsp), %%r15\n jrcxz 2f\n jmp 1b\n"
        "2: adc %%rax, %%rbx\n xor %%rdx, %%rsi\n xor %%rdi, %%r8\n xor %%r9, %%r10\n xor %%r11, %%r12\n"
        "xor %%r13, %%r14\n add %%r15, %%rsi\n xor %%rbx, %%rsi\n add %%r8, %%rsi\n xor %%r10, %%rsi\n"
        "add %%r12, %%rsi\n xor %%r14, %%rsi\n paddq %%xmm0, %%xmm7\n movq %%xmm7, %%rax\n add %%rax, %%rsi\n"
        "mov %%rsi, %0\n"
        : "=&m"(out)
        :
        : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0",
          "xmm7", "cc", "memory");
    return out;
}

int main(void)
{
    uint64_t quiet = churn();
    struct sigaction action = {.sa_handler = tick};
    must(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    must(setitimer(ITIMER_REAL, &every, NULL) == 0);
    while (ticks < 30)
        must(churn() == quiet);
    must(setitimer(ITIMER_REAL, &never, NULL) == 0);
    printf("%016lx\n", quiet);
    return 0;
}
