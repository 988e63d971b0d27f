//! Returns to addresses that no call pushed, pops its return address, and returns with an operand.
#include "guest.h"

static __attribute__((noinline)) int detour(void) { return 77; }

int main(void)
{
    uint64_t sum = MIX_START;
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t out;
        __asm__ volatile(
            "lea -128(%%rsp), %%rsp\n"
            "mov %1, %0\n call 1f\n add $100, %0\n jmp 3f\n"       // the return lands elsewhere:
            "1: test $1, %1\n jz 2f\n addq $4, (%%rsp)\n"
            "2: ret\n"
            "nop\n"
            "3: lea 6f(%%rip), %%rax\n push %%rax\n ret\n ud2\n"      // push and ret as a jump
            "6: push $7\n push $8\n call 7f\n jmp 8f\n"
            "7: add 8(%%rsp), %0\n ret $16\n"
            "8: call 9f\n"                                          // never returned from
            "9: pop %%rax\n xor $3, %0\n lea 128(%%rsp), %%rsp\n"
            : "=&b"(out) : "r"(i) : "rax", "cc", "memory");
        sum = mix(sum, out);
    }
    printf("%016lx %d\n", sum, detour());
    return 0;
}
