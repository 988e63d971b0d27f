//! Jumps into the middle of an instruction that also runs from its start.
#include "guest.h"

int main(void)
{
    uint64_t sum = MIX_START;
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t skip = i % 2, a = i, b = 0;
        __asm__ volatile(
            "lea -128(%%rsp), %%rsp\n"
            "lea 1f(%%rip), %%rdx\n"
            "add %2, %%rdx\n"
            "jmp *%%rdx\n"
            "1: .byte 0x3c\n"        // cmp $imm8, %al swallows the next byte when entered here
            "   .byte 0x50\n"        // push %rax when entered one byte later
            "   mov $7, %1\n"
            "   cmp $0, %2\n"
            "   je 2f\n"
            "   pop %1\n"
            "2: add $3, %0\n"
            "lea 128(%%rsp), %%rsp\n"
            : "+a"(a), "=&b"(b) : "S"(skip) : "rdx", "cc", "memory");
        sum = mix(mix(sum, a), b);
    }
    printf("%016lx\n", sum);
    return 0;
}
