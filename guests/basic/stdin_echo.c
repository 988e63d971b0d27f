//! Copies standard input, line by line, with numbers.
//! stdin: first line\nsecond line\n\nlast without newline
#include "guest.h"

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    for (int n = 1; (length = getline(&line, &room, stdin)) >= 0; n++)
        printf("%d %zd %s", n, length, line);
    printf("\neof %d error %d\n", !!feof(stdin), !!ferror(stdin));
    free(line);
    return 0;
}
