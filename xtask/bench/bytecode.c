//! A bytecode interpreter whose handlers jump to each other through a table of labels.
#include "guest.h"

int main(int argc, char **argv)
{
    enum { LOAD, ADD, XOR, MUL, SHIFT, DEC, LOOP, END };
    static const void *const labels[] = {&&load, &&add, &&exclusive, &&multiply, &&shift, &&decrement, &&loop, &&end};
    static const unsigned char code[] = {LOAD, 1, 77, ADD, 2, 1, XOR, 1, 2, MUL, 2, 1, SHIFT, 2, 3, ADD, 1, 2,
                                         DEC,  0, 0,  LOOP, 0, 21, END, 0, 0};
    uint64_t r[4] = {reduced(70000000, argc, argv), 1, 2, 3};
    const unsigned char *pc = code;
#define NEXT do { pc += 3; goto *labels[*pc]; } while (0)
    goto *labels[*pc];
load: r[pc[1]] = pc[2]; NEXT;
add: r[pc[1]] += r[pc[2]]; NEXT;
exclusive: r[pc[1]] ^= r[pc[2]]; NEXT;
multiply: r[pc[1]] *= r[pc[2]] | 1; NEXT;
shift: r[pc[1]] = r[pc[1]] >> pc[2] | r[pc[1]] << 7; NEXT;
decrement: r[pc[1]]--; NEXT;
loop: if (r[pc[1]]) { pc -= pc[2]; goto *labels[*pc]; } NEXT;
end:
    printf("%016lx %016lx\n", r[1], r[2]);
    return 0;
}
