//! System calls from assembly: rcx and r11 as the kernel leaves them, all else kept, flags too.
#include "guest.h"
#include <sys/syscall.h>

int main(void)
{
    uint64_t sum = MIX_START;
    for (unsigned pattern = 0; pattern < 32; pattern++) {
        // CF, PF, AF, ZF, SF in the five bits of the pattern.
        uint64_t want = (pattern & 1) | (pattern >> 1 & 1) << 2 | (pattern >> 2 & 1) << 4 | (pattern >> 3 & 1) << 6 |
                        (pattern >> 4 & 1) << 7;
        uint64_t rcx, r11, after, expect, rdx = 0xd0d0, r8 = 0x8888, r9 = 0x9999;
        uint64_t rax = SYS_getppid;
        __asm__ volatile(
            "lea -256(%%rsp), %%rsp\n pushq %[want]\n popfq\n"
            "mov %[r8], %%r8\n mov %[r9], %%r9\n mov $0x1010, %%r10\n"
            "syscall\n"
            "1: pushfq\n popq %[after]\n"
            "mov %%rcx, %[rcx]\n mov %%r11, %[r11]\n mov %%r8, %[r8]\n mov %%r9, %[r9]\n"
            "lea 256(%%rsp), %%rsp\n lea 1b(%%rip), %[expect]\n"
            : "+a"(rax), "+d"(rdx), [r8] "+&r"(r8), [r9] "+&r"(r9), [rcx] "=&r"(rcx), [r11] "=&r"(r11),
              [after] "=&r"(after), [expect] "=&r"(expect)
            : [want] "r"(want | 0x202)
            : "rcx", "r8", "r9", "r10", "r11", "memory", "cc");
        must(rcx == expect);
        must(r11 == (want | 0x202) && after == (want | 0x202));
        must(r8 == 0x8888 && r9 == 0x9999 && rdx == 0xd0d0);
        sum = mix(mix(sum, after), r11);
    }
    long bad;
    __asm__ volatile("syscall" : "=a"(bad) : "a"(100000) : "rcx", "r11", "memory");
    printf("%016lx unknown call %ld\n", sum, bad);
    static const char text[] = "written by assembly\n";
    fflush(stdout);
    long wrote;
    __asm__ volatile("syscall" : "=a"(wrote) : "a"(SYS_write), "D"(1), "S"(text), "d"(sizeof text - 1)
                     : "rcx", "r11", "memory");
    must(wrote == sizeof text - 1);
    __asm__ volatile("syscall" : "=a"(bad) : "a"(SYS_write), "D"(1), "S"(8), "d"(5) : "rcx", "r11", "memory");
    must(bad == -EFAULT);
    return 0;
}
