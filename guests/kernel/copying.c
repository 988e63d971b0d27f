//! Copies between descriptors inside the kernel: sendfile, copy_file_range.
#include "guest.h"
#include <fcntl.h>
#include <sys/sendfile.h>

int main(void)
{
    int from = open("from.bin", O_RDWR | O_CREAT | O_TRUNC, 0600), to = open("to.bin", O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(from >= 0 && to >= 0);
    static char text[20000], back[20000];
    for (int i = 0; i < 20000; i++)
        text[i] = (char)(i % 251);
    must(write(from, text, sizeof text) == sizeof text);
    off_t at = 100;
    must(sendfile(to, from, &at, 5000) == 5000 && at == 5100);
    loff_t in = 5100, out = 5000;
    must(copy_file_range(from, &in, to, &out, 3000, 0) == 3000);
    must(pread(to, back, sizeof back, 0) == 8000);
    printf("%ld %ld %016lx\n", (long)in, (long)out, mix_bytes(MIX_START, back, 8000));
    unlink("from.bin"), unlink("to.bin");
    return 0;
}
