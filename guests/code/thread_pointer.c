//! Reads the thread pointer in three ways, moves it, and puts it back.
#include "guest.h"
#include <asm/prctl.h>
#include <sys/syscall.h>

static __thread int local = 5;
static uint64_t block[64] __attribute__((aligned(64)));

int main(void)
{
    uint64_t base, self, moved;
    must(syscall(SYS_arch_prctl, ARCH_GET_FS, &base) == 0);
    __asm__("mov %%fs:0, %0" : "=r"(self));
    must(base == self);
    block[0] = 0x1234, block[1] = 0x5678;
    // No call may happen while the thread pointer is elsewhere, so both system calls are made in place.
    __asm__ volatile("mov %[set], %%edi\n mov %[block], %%rsi\n mov %[nr], %%eax\n syscall\n"
                     "mov %%fs:8, %[moved]\n"
                     "mov %[set], %%edi\n mov %[base], %%rsi\n mov %[nr], %%eax\n syscall\n"
                     : [moved] "=&r"(moved)
                     : [set] "i"(ARCH_SET_FS), [nr] "i"(SYS_arch_prctl), [block] "r"(block + 0), [base] "r"(base)
                     : "rax", "rcx", "rdi", "rsi", "r11", "memory");
    local += 2;
    printf("%lx %d %d\n", moved, local, errno);
    return 0;
}
