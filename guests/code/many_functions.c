//! Two thousand functions, each with branches of its own, called in a scattered order.
#include "guest.h"

#define F(n)                                                       \
    static __attribute__((noinline)) uint64_t f##n(uint64_t x)     \
    {                                                              \
        if (x & (1##n##ul & 63))                                   \
            x = x * (2 * 1##n##ul + 1) + 1;                        \
        else                                                       \
            x ^= x >> 13;                                          \
        return x % 3 ? x + 1##n##ul : x - 1;                       \
    }
#define N(n) f##n,
#define TEN(M, n) M(n##0) M(n##1) M(n##2) M(n##3) M(n##4) M(n##5) M(n##6) M(n##7) M(n##8) M(n##9)
#define HUNDRED(M, n) TEN(M, n##0) TEN(M, n##1) TEN(M, n##2) TEN(M, n##3) TEN(M, n##4) \
    TEN(M, n##5) TEN(M, n##6) TEN(M, n##7) TEN(M, n##8) TEN(M, n##9)
#define ALL(M) HUNDRED(M, 0) HUNDRED(M, 1) HUNDRED(M, 2) HUNDRED(M, 3) HUNDRED(M, 4) HUNDRED(M, 5) \
    HUNDRED(M, 6) HUNDRED(M, 7) HUNDRED(M, 8) HUNDRED(M, 9) HUNDRED(M, 10) HUNDRED(M, 11) HUNDRED(M, 12) \
    HUNDRED(M, 13) HUNDRED(M, 14) HUNDRED(M, 15) HUNDRED(M, 16) HUNDRED(M, 17) HUNDRED(M, 18) HUNDRED(M, 19)
ALL(F)
static uint64_t (*const functions[])(uint64_t) = {ALL(N)};

int main(void)
{
    uint64_t state = 31, x = 1;
    for (int i = 0; i < 30000; i++)
        x = functions[draw(&state) % 2000](x);
    printf("%zu %016lx\n", sizeof functions / sizeof *functions, x);
    return 0;
}
