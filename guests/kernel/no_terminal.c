//! Terminal requests on a standard input that is none.
//! stdin: some text
#include "guest.h"
#include <sys/ioctl.h>
#include <termios.h>

int main(void)
{
    struct termios settings;
    struct winsize size;
    printf("%d %d\n", isatty(0), isatty(1));
    must(tcgetattr(0, &settings) == -1 && errno == ENOTTY);
    must(ioctl(0, TIOCGWINSZ, &size) == -1 && errno == ENOTTY);
    int waiting = -1;
    must(ioctl(0, FIONREAD, &waiting) == 0);
    must(ioctl(0, FIOCLEX) == 0 && ioctl(55, FIONREAD, &waiting) == -1 && errno == EBADF);
    printf("%d %s\n", waiting, ttyname(0) ? "named" : "nameless");
    return 0;
}
