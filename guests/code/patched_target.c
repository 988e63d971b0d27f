//! A branch whose target overwrites the flags, until it is patched and reads them; it is on a page of its own.
#include "guest.h"
#include <sys/mman.h>

int main(void)
{
    unsigned char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(page != MAP_FAILED);
    // cmp %esi, %edi; jne there; lea 9(%rdi), %eax; test %eax, %eax; jne .+2; ret
    const unsigned char here[] = {0x39, 0xf7, 0x0f, 0x85, 0xf8, 0x0f, 0, 0, 0x8d, 0x47, 9, 0x85, 0xc0, 0x75, 0, 0xc3};
    // xor %eax, %eax; setb %al; movzx %al, %eax; ret
    const unsigned char there[] = {0x31, 0xc0, 0x0f, 0x92, 0xc0, 0x0f, 0xb6, 0xc0, 0xc3};
    memcpy(page, here, sizeof here);
    memcpy(page + 4096, there, sizeof there);
    unsigned (*below)(unsigned, unsigned) = (unsigned (*)(unsigned, unsigned))(uintptr_t)page;
    uint64_t sum = MIX_START;
    for (unsigned i = 0; i < 200; i++) {
        // The flags are those of the xor: nothing is below anything.
        must(below(1, 2) == 0 && below(2, 1) == 0);
        memcpy(page + 4096, (const unsigned char[]){0x90, 0x90}, 2);
        must(below(i, i + 1) == 1 && below(i + 1, i) == 0);
        sum = mix(sum, below(i, 100));
        memcpy(page + 4096, there, 2);
    }
    printf("%016lx\n", sum);
    return 0;
}
