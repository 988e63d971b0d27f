//! Every form of indirect call and jump: register, memory, scaled index, rip-relative, through rsp.
#include "guest.h"

__asm__(".text\none: lea 1(%rdi), %rax\n ret\n two: lea 2(%rdi,%rdi), %rax\n ret\n");
extern uint64_t one(uint64_t), two(uint64_t);
__attribute__((used)) uint64_t (*indirect_table[])(uint64_t) = {one, two, one, two};

int main(void)
{
    uint64_t sum = MIX_START;
    for (uint64_t i = 0; i < 500; i++) {
        uint64_t out = i, index = i % 4;
        __asm__ volatile(
            "lea -128(%%rsp), %%rsp\n"
            "mov %0, %%rdi\n"
            "lea indirect_table(%%rip), %%rdx\n"
            "call *(%%rdx,%1,8)\n mov %%rax, %%rdi\n"
            "call *8+indirect_table(%%rip)\n mov %%rax, %%rdi\n"
            "mov (%%rdx), %%r11\n call *%%r11\n mov %%rax, %%rdi\n"
            "push 8(%%rdx)\n call *(%%rsp)\n mov %%rax, %%rdi\n pop %%rcx\n"
            "lea two(%%rip), %%r12\n push %%r12\n lea 1f(%%rip), %%rcx\n xchg %%rcx, (%%rsp)\n push %%rcx\n ret\n"
            "1: mov %%rax, %%rdi\n mov $16, %%r13d\n"
            "lea 2f(%%rip), %%rcx\n mov %%rcx, -16(%%rsp)\n jmp *-16(%%rsp)\n ud2\n"
            "2: call *-16(%%rdx,%%r13)\n"
            "mov %%rax, %0\n lea 128(%%rsp), %%rsp\n"
            : "+b"(out) : "S"(index) : "rax", "rcx", "rdx", "rdi", "r11", "r12", "r13", "cc", "memory");
        sum = mix(sum, out);
    }
    printf("%016lx\n", sum);
    return 0;
}
