//! rep movs, stos, scas, cmps and lods of every width, with counts from none to many.
#include "guest.h"

static unsigned char from[70000], to[70000];

int main(void)
{
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 37 >> 3);
    uint64_t sum = MIX_START;
    const size_t counts[] = {0, 1, 2, 7, 64, 1000, 8000};
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        void *source = from + 1, *target = to + 3;
        size_t count = counts[n];
        __asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
        count = counts[n];
        __asm__ volatile("rep movsw" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
        count = counts[n];
        __asm__ volatile("rep movsl" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
        sum = mix(mix(sum, (uint64_t)((unsigned char *)source - from)), (uint64_t)((unsigned char *)target - to));
        count = counts[n], target = to;
        __asm__ volatile("rep stosq" : "+D"(target), "+c"(count) : "a"(0x0123456789abcdef) : "memory");
        sum = mix(mix_bytes(sum, to, sizeof to), count);
        count = counts[n], target = from;
        unsigned char zero;
        __asm__ volatile("cmp %%eax, %%eax\n repne scasb\n setz %2" : "+D"(target), "+c"(count), "=r"(zero) : "a"(0x2a) : "cc");
        sum = mix(mix(sum, count * 2 + zero), (uint64_t)((unsigned char *)target - from));
        count = counts[n], source = from, target = to;
        unsigned char above;
        __asm__ volatile("cmp %%rax, %%rax\n repe cmpsl\n seta %3" : "+S"(source), "+D"(target), "+c"(count), "=r"(above) : : "cc", "memory");
        sum = mix(sum, count * 2 + above);
        count = counts[n], source = from;
        uint64_t rax = 5;
        __asm__ volatile("rep lodsw" : "+S"(source), "+c"(count), "+a"(rax) : : "memory");
        sum = mix(sum, rax);
    }
    printf("%016lx\n", sum);
    return 0;
}
