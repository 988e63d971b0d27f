//! Writes its own data and code through /proc/self/mem.
#include "guest.h"
#include <fcntl.h>
#include <sys/uio.h>

static volatile int number = 1;
static const volatile int constant = 2;

/// mov eax, 5; ret
__asm__(".text\n.balign 16\nanswer: .byte 0xb8, 5, 0, 0, 0, 0xc3\n");
extern unsigned char answer[];

static int ask(void)
{
    return ((int (*)(void))(uintptr_t)answer)();
}

int main(void)
{
    int memory = open("/proc/self/mem", O_RDWR), seven = 7, eight = 8, nine = 9;
    printf("%d %d %d\n", number, constant, ask());
    ssize_t a = pwrite(memory, &seven, sizeof seven, (off_t)(uintptr_t)&number);
    printf("%zd %d\n", a, number);
    // Not writable for the program itself.
    lseek(memory, (off_t)(uintptr_t)&constant, SEEK_SET);
    ssize_t b = write(memory, &eight, sizeof eight);
    printf("%zd %d\n", b, constant);
    // Code that was executed already, in two pieces.
    struct iovec pieces[] = {{&nine, 2}, {(char *)&nine + 2, 2}};
    ssize_t c = pwritev(memory, pieces, 2, (off_t)(uintptr_t)answer + 1);
    printf("%zd %d\n", c, ask());
    // Nothing is mapped there.
    ssize_t d = pwrite(memory, &nine, sizeof nine, 64);
    printf("%zd %d\n", d, errno);
    close(memory);
    return 0;
}
