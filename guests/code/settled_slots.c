//! Calls through the global offset table, which is read-only after relocation, until the program changes it.
//! flags: -Wl,-z,now -Wl,-z,relro
//! link: dynamic
#include "guest.h"
#include <ctype.h>
#include <sys/mman.h>

__asm__(".text\n"
        "by_jump: jmp *toupper@GOTPCREL(%rip)\n"
        "by_call: sub $8, %rsp\n"
        "call *toupper@GOTPCREL(%rip)\n"
        "add $8, %rsp\n"
        "ret\n");
int by_jump(int c);
int by_call(int c);

static int twice(int c)
{
    return 2 * c;
}

static void allow(void *slot, int protection)
{
    void *page = (void *)((uintptr_t)slot & ~(uintptr_t)4095);
    must(mprotect(page, 4096, protection) == 0);
}

int main(void)
{
    int (**slot)(int);
    __asm__("lea toupper@GOTPCREL(%%rip), %0" : "=r"(slot));
    int (*settled)(int) = *slot;
    uint64_t sum = MIX_START;
    for (int i = 0; i < 100; i++) {
        must(by_jump('a') == 'A' && by_call('z') == 'Z');
        allow(slot, PROT_READ | PROT_WRITE);
        *slot = twice;
        must(by_jump('a') == 2 * 'a' && by_call(7) == 14);
        // Nobody is told of these.
        *slot = settled;
        must(by_jump('a') == 'A' && by_call(7) == 7);
        *slot = twice;
        must(by_jump('b') == 2 * 'b');
        if (i % 2)
            allow(slot, PROT_READ);
        sum = mix(sum, (uint64_t)(by_jump(i) + by_call('q')));
        allow(slot, PROT_READ | PROT_WRITE);
        *slot = settled;
        allow(slot, PROT_READ);
    }
    printf("%016lx\n", sum);
    return 0;
}
