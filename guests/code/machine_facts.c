//! Asks the processor about itself and for random numbers and time: the replay must hear the same.
//! nondeterministic: rdtsc, rdrand, rdpid and the initial APIC id differ from run to run
//! flags: -mrdrnd -mxsave
#include "guest.h"
#include <cpuid.h>
#include <immintrin.h>

int main(void)
{
    unsigned a, b, c, d;
    for (unsigned leaf = 0; leaf < 8; leaf++) {
        __cpuid_count(leaf, 0, a, b, c, d);
        printf("%u: %08x %08x %08x %08x\n", leaf, a, b, c, d);
    }
    __cpuid(1, a, b, c, d);
    if (c & 1u << 30)
        for (int i = 0; i < 4; i++) {
            unsigned long long random = 0;
            int ok = _rdrand64_step(&random);
            printf("random %d %016llx\n", ok, random);
        }
    if (c & 1u << 27)
        printf("xcr0 %llx\n", (unsigned long long)_xgetbv(0));
    uint64_t first = __rdtsc();
    unsigned aux, aux2;
    uint64_t second = __rdtscp(&aux);
    __asm__ volatile("rdtscp\n mov %%ecx, %0" : "=r"(aux2) : : "rax", "rcx", "rdx");
    printf("time %lu then %lu on %u %u, later %d\n", first, second, aux, aux2, second > first);
    __cpuid_count(7, 0, a, b, c, d);
    if (c & 1u << 22) {
        uint64_t where;
        __asm__ volatile(".byte 0xf3, 0x0f, 0xc7, 0xf8" : "=a"(where)); // rdpid %rax
        printf("processor %lu\n", where);
    }
    return 0;
}
