//! Locked and wide compare-and-exchange, exchange-add, bit test and set, and fences.
//! flags: -mcx16
#include "guest.h"

int main(void)
{
    uint64_t word = 5, sum = MIX_START, state = 17;
    unsigned __int128 wide __attribute__((aligned(16))) = 1;
    for (int i = 0; i < 3000; i++) {
        uint64_t r = draw(&state);
        sum = mix(sum, __atomic_fetch_add(&word, r, __ATOMIC_SEQ_CST));
        uint64_t expected = i % 2 ? word : r;
        sum = mix(sum, __atomic_compare_exchange_n(&word, &expected, r ^ sum, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
        sum = mix(sum, expected);
        unsigned char was;
        __asm__ volatile("lock btsq %2, %0\n setc %1" : "+m"(word), "=r"(was) : "r"(r & 63) : "cc");
        sum = mix(sum, was);
        uint64_t low = i % 2 ? (uint64_t)wide : r, high = (uint64_t)(wide >> 64);
        __asm__ volatile("lock cmpxchg16b %0\n setz %1" : "+m"(wide), "=r"(was), "+a"(low), "+d"(high) : "b"(r), "c"(sum) : "cc");
        sum = mix(mix(sum, low), high + was);
        __asm__ volatile("mfence\n lfence\n sfence\n pause" : : : "memory");
    }
    printf("%016lx\n", sum);
    return 0;
}
