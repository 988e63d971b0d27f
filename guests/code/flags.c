//! Arithmetic flags of every instruction kind, stored and loaded with pushf, popf, lahf and sahf.
#include "guest.h"

#define FLAGS_OF(instruction, a, b) MASKED(0x8d5, instruction, a, b)
// The mask leaves out flags that an instruction leaves undefined.
#define MASKED(mask, instruction, a, b)                                                                       \
    ({                                                                                                     \
        uint64_t flags_, x_ = (a), y_ = (b);                                                               \
        __asm__ volatile("lea -128(%%rsp), %%rsp\n" instruction "\n pushfq\n popq %0\n lea 128(%%rsp), %%rsp" \
                         : "=&r"(flags_), "+&r"(x_), "+&c"(y_) : : "cc", "memory");                        \
        mix(flags_ & (mask), x_);                                                                           \
    })

int main(void)
{
    static const uint64_t values[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0x7fffffff, 0x80000000, 0x7fffffffffffffff,
                                      0x8000000000000000, 0xffffffffffffffff, 0x123456789abcdef0};
    uint64_t sum = MIX_START;
    for (unsigned i = 0; i < 12; i++)
        for (unsigned j = 0; j < 12; j++) {
            uint64_t a = values[i], b = values[j];
            sum = mix(sum, FLAGS_OF("add %2, %1", a, b));
            sum = mix(sum, FLAGS_OF("sub %2, %1", a, b));
            sum = mix(sum, FLAGS_OF("cmp %b2, %b1", a, b));
            sum = mix(sum, FLAGS_OF("stc\n adc %k2, %k1", a, b));
            sum = mix(sum, FLAGS_OF("stc\n sbb %w2, %w1", a, b));
            sum = mix(sum, FLAGS_OF("stc\n inc %1", a, b));
            sum = mix(sum, FLAGS_OF("clc\n dec %1", a, b));
            sum = mix(sum, FLAGS_OF("neg %1", a, b));
            sum = mix(sum, MASKED(0x41, "bt %2, %1", a, b));
            sum = mix(sum, FLAGS_OF("xadd %2, %1", a, b));
        }
    uint64_t odd, even, ah;
    __asm__ volatile("mov $0xd5, %%ah\n sahf\n jmp 1f\n 1: lahf\n movzx %%ah, %%eax" : "=&a"(ah) : : "cc");
    __asm__ volatile("lea -128(%%rsp), %%rsp\n pushq $0x8d7\n popfq\n pushfq\n popq %0\n pushq $0x202\n popfq\n"
                     "pushfq\n popq %1\n lea 128(%%rsp), %%rsp" : "=r"(odd), "=r"(even) : : "cc", "memory");
    printf("%016lx %lx %lx %lx\n", sum, ah, odd, even);
    return 0;
}
