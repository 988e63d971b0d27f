//! A private mapping shows what is written to the file, until the guest writes to the page itself.
//! file: data.bin 0123456789
#include "guest.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(void)
{
    int fd = open("data.bin", O_RDWR);
    must(fd >= 0 && ftruncate(fd, 12288) == 0);
    char *view = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    must(view != MAP_FAILED);
    view[1] = 'P';
    must(pwrite(fd, "file", 4, 4) == 4 && pwrite(fd, "file", 4, 4100) == 4);
    printf("%.10s %.4s\n", view, view + 4100);
    view[4100] = 'F';
    must(pwrite(fd, "gone", 4, 4100) == 4 && pwrite(fd, "last", 4, 8192) == 4);
    printf("%.4s %.4s\n", view + 4100, view + 8192);
    char text[5] = {0};
    must(pread(fd, text, 4, 4100) == 4);
    puts(text);
    return 0;
}
