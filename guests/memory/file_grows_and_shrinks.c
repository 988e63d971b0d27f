//! A file mapped for reading only, written with pwrite, made longer and shorter under the mapping.
#include "guest.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

static sigjmp_buf again;

static void on_bus(int signal)
{
    siglongjmp(again, signal);
}

static int look(const volatile char *at)
{
    if (sigsetjmp(again, 1))
        return -1;
    return *at;
}

int main(void)
{
    signal(SIGBUS, on_bus);
    int fd = memfd_create("file", 0);
    must(fd >= 0 && ftruncate(fd, 5000) == 0);
    const char *view = mmap(NULL, 16384, PROT_READ, MAP_SHARED, fd, 0);
    must(view != MAP_FAILED);
    printf("%d %d %d\n", look(view), look(view + 4999), look(view + 8192));
    must(pwrite(fd, "abc", 3, 4095) == 3);
    printf("%c%c%c\n", view[4095], view[4096], view[4097]);
    must(ftruncate(fd, 12288) == 0);
    printf("%d %d\n", look(view + 8192), look(view + 12288));
    must(pwrite(fd, "xyz", 3, 9000) == 3 && lseek(fd, 100, SEEK_SET) == 100 && write(fd, "here", 4) == 4);
    printf("%.3s %.4s\n", view + 9000, view + 100);
    must(ftruncate(fd, 4096) == 0);
    printf("%d %d %d\n", look(view + 4095), look(view + 4096), look(view + 9000));
    must(ftruncate(fd, 16384) == 0);
    printf("%d %d %d\n", look(view + 4095), look(view + 4096), look(view + 9000));
    return 0;
}
