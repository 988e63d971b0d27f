//! Sends its standard output elsewhere with dup2 and brings it back.
#include "guest.h"
#include <fcntl.h>

int main(void)
{
    say("to the real output");
    int saved = dup(1), file = open("captured.txt", O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(saved >= 0 && file >= 0 && dup2(file, 1) == 1);
    say("to the file");
    must(dup2(2, 1) == 1);
    say("to stderr");
    must(dup3(saved, 1, 0) == 1 && close(saved) == 0);
    char text[64] = {0};
    must(pread(file, text, sizeof text - 1, 0) > 0);
    printf("captured: %s", text);
    int high = fcntl(1, F_DUPFD_CLOEXEC, 50);
    must(high >= 50 && dprintf(high, "through %d\n", high >= 50) > 0);
    must(close_range(50, 100, 0) == 0 && fcntl(high, F_GETFD) == -1);
    unlink("captured.txt");
    return 0;
}
