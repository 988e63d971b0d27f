//! Loses a block whose address is left in registers where the program ends.
#include "guest.h"

int main(int argc, char **argv)
{
    (void)argv;
    char *volatile block = malloc(10); // MARK: fault
    if (argc > 1)
        free(block);
    char *last = block;
    block = NULL;
    __asm__ volatile("mov %0, %%rcx; mov %0, %%rsi; mov %0, %%r8; mov %0, %%r11; xor %0, %0"
                     : "+r"(last)
                     :
                     : "rcx", "rsi", "r8", "r11");
    return 0;
}
