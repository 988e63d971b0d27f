//! Finds its own address with call and pop, with lea, and by reading its own code bytes.
#include "guest.h"

__asm__(".text\n.globl marked\nmarked: .byte 0xb8, 0x78, 0x56, 0x34, 0x12, 0xc3\n");
extern int marked(void);

int main(void)
{
    uint64_t popped, led, called;
    __asm__ volatile("lea -128(%%rsp), %%rsp\n call 1f\n 1: pop %0\n lea 1b(%%rip), %1\n lea 128(%%rsp), %%rsp\n"
                     : "=&r"(popped), "=&r"(led) : : "memory");
    must(popped == led);
    __asm__ volatile("lea -128(%%rsp), %%rsp\n call 1f\n 3: jmp 2f\n 1: mov (%%rsp), %0\n ret\n 2: lea 3b(%%rip), %1\n"
                     "lea 128(%%rsp), %%rsp\n" : "=&r"(called), "=&r"(led) : : "memory");
    must(called == led);
    const unsigned char *bytes = (const unsigned char *)(uintptr_t)marked;
    for (int i = 0; i < 6; i++)
        printf("%02x ", bytes[i]);
    printf("%x %d\n", (unsigned)marked(), (char *)__builtin_return_address(0) != NULL);
    return 0;
}
