//! Multiplication, division, shifts and bit counting at every width, by register and by memory.
//! flags: -mpopcnt -mbmi -mbmi2 -mlzcnt
//! needs: bmi1 bmi2
#include "guest.h"
#include <immintrin.h>

int main(void)
{
    uint64_t state = 23, sum = MIX_START;
    for (int i = 0; i < 5000; i++) {
        uint64_t a = draw(&state), b = draw(&state) | 1, low, high;
        unsigned char count = (unsigned char)(a >> 40);
        __asm__("mulq %3" : "=a"(low), "=d"(high) : "a"(a), "r"(b));
        sum = mix(mix(sum, low), high);
        __asm__("divq %4" : "=a"(low), "=d"(high) : "a"(a), "d"(b >> 2), "m"(b) : "cc");
        sum = mix(mix(sum, low), high);
        __asm__("shld %b2, %3, %0\n shrd %b2, %0, %1" : "+&r"(a), "+&r"(low) : "c"(count), "r"(b) : "cc");
        sum = mix(mix(sum, a), low);
        uint32_t n = (uint32_t)a;
        uint16_t w = (uint16_t)b;
        __asm__("rorl %b2, %0\n rolw %b2, %1\n sarl $3, %0" : "+r"(n), "+r"(w) : "c"(count) : "cc");
        sum = mix(sum, n + (uint64_t)w * 3);
        sum = mix(sum, (uint64_t)_mm_popcnt_u64(a) + _lzcnt_u64(b) * 64 + _tzcnt_u64(a) * 4096);
        sum = mix(sum, _pdep_u64(a, b) ^ _pext_u64(b, a) ^ _blsr_u64(a) ^ __builtin_bswap64(b));
    }
    printf("%016lx\n", sum);
    return 0;
}
