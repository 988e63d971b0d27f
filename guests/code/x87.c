//! x87 arithmetic: the register stack, control and status words, transcendental functions.
#include "guest.h"

int main(void)
{
    long double values[] = {1.5L, -2.25L, 1e300L, 3e-4000L, 12345.678901234567890123L};
    uint64_t sum = MIX_START;
    for (int i = 0; i < 5; i++) {
        long double x = values[i], sine, root, log2;
        __asm__("fsin" : "=t"(sine) : "0"(x));
        __asm__("fsqrt" : "=t"(root) : "0"(x * x));
        __asm__("fyl2x" : "=t"(log2) : "0"(x * x), "u"(1.0L) : "st(1)");
        sum = mix_bytes(mix_bytes(mix_bytes(sum, &sine, 10), &root, 10), &log2, 10);
    }
    unsigned short control, status, seen[4];
    __asm__ volatile("fnstcw %0" : "=m"(control));
    for (unsigned short rounding = 0; rounding < 4; rounding++) {
        unsigned short changed = (unsigned short)((control & ~0xc00) | rounding << 10);
        long double x = 2.5L;
        int rounded;
        __asm__ volatile("fldcw %2\n fistpl %0" : "=m"(rounded) : "t"(x), "m"(changed) : "st");
        seen[rounding] = (unsigned short)rounded;
    }
    __asm__ volatile("fldcw %0" : : "m"(control));
    __asm__ volatile("fnclex\n fldz\n fld1\n fdivp\n fld1\n fldz\n fdivrp\n fnstsw %0\n fstp %%st\n fstp %%st"
                     : "=a"(status) : : "st", "st(1)");
    printf("%016lx %d %d %d %d %04x %04x\n", sum, seen[0], seen[1], seen[2], seen[3], control, status & 0x3f);
    return 0;
}
