//! The auxiliary vector is the same in the kernel's copy and in the program's.
#include "guest.h"
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

extern char **environ;

int main(void)
{
    char **end = environ;
    while (*end)
        end++;
    const ElfW(auxv_t) *own = (const ElfW(auxv_t) *)(end + 1);
    int fd = open("/proc/self/auxv", O_RDONLY);
    must(fd >= 0);
    ElfW(auxv_t) entry;
    int n = 0;
    do {
        must(read(fd, &entry, sizeof entry) == sizeof entry);
        must(entry.a_type == own[n].a_type && entry.a_un.a_val == own[n].a_un.a_val);
    } while (own[n++].a_type != AT_NULL);
    must(close(fd) == 0);
    printf("%d\n", n > 10);
    return 0;
}
