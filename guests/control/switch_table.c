//! Dispatches through dense and sparse switch tables.
#include "guest.h"

static __attribute__((noinline)) uint64_t dense(unsigned op, uint64_t x)
{
    switch (op) {
    case 0: return x + 1;
    case 1: return x * 3;
    case 2: return x ^ 0x55;
    case 3: return x >> 3 | x << 61;
    case 4: return ~x;
    case 5: return x - 977;
    case 6: x += 5; __attribute__((fallthrough));
    case 7: return x * 7;
    case 8: return x & 0xffffffffffff;
    case 9: return x | 0x8000000000000000;
    case 10: return -x;
    case 11: return __builtin_bswap64(x);
    default: return x + op;
    }
}

static __attribute__((noinline)) int sparse(int code)
{
    switch (code) {
    case -1000: return 1;
    case 3: return 2;
    case 500: return 3;
    case 70000: return 4;
    case 1 << 30: return 5;
    default: return 6;
    }
}

int main(void)
{
    uint64_t state = 7, x = 1;
    for (int i = 0; i < 50000; i++)
        x = dense((unsigned)(draw(&state) % 14), x);
    printf("%016lx\n", x);
    printf("%d%d%d%d%d%d\n", sparse(-1000), sparse(3), sparse(500), sparse(70000), sparse(1 << 30),
           sparse(0));
    return 0;
}
