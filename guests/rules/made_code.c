//! Reads sixteen bytes at once in code that it has made itself, as compiled regular expressions do.
//! flags: -Wno-pedantic
#include "guest.h"
#include <sys/mman.h>

int main(int argc, char **argv)
{
    (void)argv;
    // movdqu (%rdi),%xmm0; ret
    static const unsigned char code[] = {0xf3, 0x0f, 0x6f, 0x07, 0xc3};
    void *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(made, code, sizeof code);
    mprotect(made, 4096, PROT_READ | PROT_EXEC);
    char *text = malloc(40);
    memset(text, 'x', 40);
    // What is partly inside is how it looks for something.
    ((void (*)(const char *))made)(text + (argc > 1 ? 30 : 40)); // MARK: fault
    free(text);
    return 0;
}
