//! Patches its own instructions on a page that is writable and executable at once.
#include "guest.h"
#include <sys/mman.h>

int main(void)
{
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(page != MAP_FAILED);
    // add $imm32, %edi; mov %edi, %eax; ret
    const unsigned char code[] = {0x81, 0xc7, 0, 0, 0, 0, 0x89, 0xf8, 0xc3};
    memcpy(page, code, sizeof code);
    int (*add)(int) = (int (*)(int))(uintptr_t)page;
    uint64_t sum = MIX_START;
    for (int i = 0; i < 500; i++) {
        memcpy(page + 2, &i, 4);
        int got = add(1000);
        must(got == 1000 + i);
        sum = mix(sum, (uint64_t)got);
        page[1] = i % 2 ? 0xc7 : 0xef; // add or sub for one call
        sum = mix(sum, (uint64_t)(unsigned)add(1000));
        page[1] = 0xc7;
    }
    printf("%016lx\n", sum);
    return 0;
}
