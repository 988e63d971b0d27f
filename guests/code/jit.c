//! Generates functions on writable pages, makes them executable, and calls between them.
#include "guest.h"
#include <sys/mman.h>

enum { PAGE = 4096, COUNT = 30 };

int main(void)
{
    uint64_t x = 1;
    unsigned char *previous = NULL;
    for (int n = 0; n < COUNT; n++) {
        unsigned char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at = page;
        must(page != MAP_FAILED);
        // A chain of lea/imul/xor with constants of this function, then a call of the one before.
        for (int i = 0; i < 100; i++) {
            *at++ = 0x48, *at++ = 0x69, *at++ = 0xff; // imul $imm, %rdi, %rdi
            int factor = n * 1000 + i * 2 + 1;
            memcpy(at, &factor, 4), at += 4;
            *at++ = 0x48, *at++ = 0x83, *at++ = 0xf7, *at++ = (unsigned char)(i & 0x7f); // xor $imm8, %rdi
        }
        if (previous) {
            *at++ = 0x48, *at++ = 0xb8, memcpy(at, &previous, 8), at += 8; // movabs $previous, %rax
            *at++ = 0xff, *at++ = 0xd0;                                   // call *%rax
            *at++ = 0x48, *at++ = 0xff, *at++ = 0xc0;                     // inc %rax
        } else {
            *at++ = 0x48, *at++ = 0x89, *at++ = 0xf8; // mov %rdi, %rax
        }
        *at++ = 0xc3;
        must(mprotect(page, PAGE, PROT_READ | PROT_EXEC) == 0);
        x = mix(x, ((uint64_t(*)(uint64_t))(uintptr_t)page)(x));
        previous = page;
    }
    printf("%016lx\n", x);
    return 0;
}
