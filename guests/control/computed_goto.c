//! Interprets a bytecode whose handlers jump to each other through a table of labels.
#include "guest.h"

int main(void)
{
    static const void *const labels[] = {&&op_push, &&op_add, &&op_mul, &&op_dup, &&op_swap, &&op_loop, &&op_end};
    enum { PUSH, ADD, MUL, DUP, SWAP, LOOP, END };
    static const unsigned char code[] = {PUSH, 3, DUP, MUL, ADD, PUSH, 11, SWAP, ADD, LOOP, 9, END};
    uint64_t stack[64] = {1}, *top = stack;
    const unsigned char *pc = code;
    int left = 20000;
    goto *labels[*pc++];
op_push: *++top = *pc++; goto *labels[*pc++];
op_add: top--; *top += top[1]; goto *labels[*pc++];
op_mul: top--; *top *= top[1]; goto *labels[*pc++];
op_dup: top++; *top = top[-1]; goto *labels[*pc++];
op_swap: { uint64_t x = *top; *top = top[-1]; top[-1] = x ^ (x >> 5); } goto *labels[*pc++];
op_loop: if (left-- > 0) pc -= pc[0] + 1; else pc++; goto *labels[*pc++];
op_end:
    printf("%016lx %ld\n", *top, (long)(top - stack));
    return 0;
}
