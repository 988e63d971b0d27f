//! Uses loop, loope, loopne, jrcxz and jecxz, taken and not.
#include "guest.h"

int main(void)
{
    uint64_t sum = MIX_START;
    for (uint64_t count = 1; count < 50; count++) {
        uint64_t turns = 0, rcx = count;
        __asm__ volatile("1: inc %0\n loop 1b" : "+r"(turns), "+c"(rcx) : : "cc");
        sum = mix(mix(sum, turns), rcx);
        rcx = count;
        turns = 0;
        __asm__ volatile("1: inc %0\n cmp $20, %0\n loopne 1b" : "+r"(turns), "+c"(rcx) : : "cc");
        sum = mix(mix(sum, turns), rcx);
        rcx = count;
        turns = 0;
        __asm__ volatile("1: inc %0\n mov %0, %%rax\n and $-8, %%rax\n loope 1b"
                         : "+r"(turns), "+c"(rcx) : : "rax", "cc");
        sum = mix(mix(sum, turns), rcx);
    }
    for (uint64_t rcx = 0; rcx < 3; rcx++) {
        uint64_t took = 0, took32 = 0, high = rcx << 32;
        __asm__ volatile("jrcxz 1f\n jmp 2f\n 1: mov $1, %0\n 2:" : "+r"(took) : "c"(rcx));
        __asm__ volatile("jecxz 1f\n jmp 2f\n 1: mov $1, %0\n 2:" : "+r"(took32) : "c"(high));
        printf("%lu: rcx %lu ecx %lu\n", rcx, took, took32);
    }
    // The flags pass through jrcxz and loop untouched.
    uint64_t carry = 0, rcx = 5;
    __asm__ volatile("stc\n 1: loop 1b\n jrcxz 2f\n ud2\n 2: adc $0, %0" : "+r"(carry), "+c"(rcx) : : "cc");
    printf("%016lx carry %lu\n", sum, carry);
    return 0;
}
