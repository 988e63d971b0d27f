//! Code mapped low, in the middle and high in the address space, calling each other.
#include "guest.h"
#include <sys/mman.h>

int main(void)
{
    const uintptr_t places[] = {0x10000000, 0x7000000000, 0x300000000000, 0x20000};
    unsigned char *code[4];
    for (int i = 0; i < 4; i++) {
        code[i] = mmap((void *)places[i], 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        must(code[i] == (void *)places[i]);
        unsigned char *at = code[i];
        uint64_t slot = 3;
        *at++ = 0x48, *at++ = 0x03, *at++ = 0x3d; // add data(%rip), %rdi
        int distance = 0x100 - 7;
        memcpy(at, &distance, 4), at += 4;
        memcpy(code[i] + 0x100, &slot, 8);
        if (i) {
            *at++ = 0xff, *at++ = 0x25; // jmp *pointer(%rip)
            distance = 0x108 - 13;
            memcpy(at, &distance, 4), at += 4;
            memcpy(code[i] + 0x108, &code[i - 1], 8);
        } else {
            *at++ = 0x48, *at++ = 0x89, *at++ = 0xf8, *at++ = 0xc3; // mov %rdi, %rax; ret
        }
        must(mprotect(code[i], 4096, PROT_READ | PROT_EXEC) == 0);
    }
    for (int i = 0; i < 4; i++)
        for (uint64_t x = 0; x < 3; x++)
            printf("%lu ", ((uint64_t(*)(uint64_t))(uintptr_t)code[i])(x * 10));
    puts("");
    return 0;
}
