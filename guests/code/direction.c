//! String instructions running backwards, with the direction flag seen by pushf.
#include "guest.h"

int main(void)
{
    char text[64] = "abcdefghijklmnopqrstuvwxyz";
    char *from = text + 25, *to = text + 40;
    uint64_t count = 26, flags;
    __asm__ volatile("std\n rep movsb\n lea -128(%%rsp), %%rsp\n pushfq\n popq %3\n lea 128(%%rsp), %%rsp\n cld"
                     : "+S"(from), "+D"(to), "+c"(count), "=&r"(flags) : : "memory", "cc");
    printf("%s %ld %ld %lx\n", text, (long)(from - text), (long)(to - text), flags & 0x400);
    to = text + 60;
    __asm__ volatile("std\n stosw\n stosw\n cld" : "+D"(to) : "a"(0x4142) : "memory");
    printf("%.4s %ld\n", text + 58, (long)(to - text));
    return 0;
}
