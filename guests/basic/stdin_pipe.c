//! Reads a pipe to its end with read, one byte at a time and then in one gulp.
//! pipe: 0123456789abcdef\nsecond\n
#include "guest.h"

int main(void)
{
    char head[5] = {0}, rest[64] = {0};
    for (int i = 0; i < 4; i++)
        must(read(0, head + i, 1) == 1);
    must(lseek(0, 0, SEEK_CUR) == -1 && errno == ESPIPE);
    size_t count = 0;
    ssize_t got;
    while ((got = read(0, rest + count, sizeof rest - count)) > 0)
        count += (size_t)got;
    printf("[%s] [%s] %zu\n", head, rest, count);
    return 0;
}
