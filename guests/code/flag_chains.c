//! Carries flags across jumps, calls, returns, indirect branches and conditional moves.
#include "guest.h"

// Returns the top bit of its argument in the carry flag and nothing in registers.
__asm__(".text\n.type top_bit, @function\ntop_bit: bt $63, %rdi\n ret\n");
// Adds with the carry it was called with and leaves the new carry for its caller.
__asm__(".type add_on, @function\nadd_on: adc %rsi, %rdi\n ret\n");

int main(void)
{
    uint64_t state = 11, sum = MIX_START;
    for (int i = 0; i < 3000; i++) {
        uint64_t a = draw(&state), b = draw(&state), low, high, taken;
        __asm__ volatile(
            "lea -128(%%rsp), %%rsp\n"
            "mov %[a], %%rdi\n mov %[b], %%rsi\n"
            "call top_bit\n"             // CF crosses a return
            "call add_on\n"              // CF crosses a call, and another return
            "lea 1f(%%rip), %%rax\n jmp *%%rax\n ud2\n"
            "1: mov %%rdi, %[low]\n"
            "mov $0, %[high]\n adc %%rsi, %[high]\n" // CF crossed an indirect jump
            "setc %%al\n seto %%ah\n sets %%dl\n setp %%dh\n"
            "movzx %%ax, %[taken]\n jnp 2f\n cmovs %[low], %[taken]\n jmp 3f\n"
            "2: cmovns %[high], %[taken]\n"
            "3: adc $0, %[taken]\n"
            "lea add_on(%%rip), %%rax\n stc\n call *%%rax\n adc %%rdi, %[high]\n"
            "lea 128(%%rsp), %%rsp\n"
            : [low] "=&r"(low), [high] "=&r"(high), [taken] "=&r"(taken)
            : [a] "r"(a), [b] "r"(b)
            : "rax", "rdx", "rdi", "rsi", "cc", "memory");
        sum = mix(mix(mix(sum, low), high), taken);
    }
    printf("%016lx\n", sum);
    return 0;
}
