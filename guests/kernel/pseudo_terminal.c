//! A terminal of its own: settings, size, line discipline, and data both ways.
#include "guest.h"
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

int main(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    must(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    char name[64], text[64];
    must(ptsname_r(master, name, sizeof name) == 0);
    int slave = open(name, O_RDWR | O_NOCTTY);
    must(slave >= 0 && isatty(slave) && isatty(master));
    struct winsize size = {24, 80, 0, 0}, got;
    must(ioctl(master, TIOCSWINSZ, &size) == 0 && ioctl(slave, TIOCGWINSZ, &got) == 0);
    printf("%u x %u\n", got.ws_row, got.ws_col);
    must(write(master, "typed\x7f\x7f!\n", 9) == 9);
    ssize_t count = read(slave, text, sizeof text);
    printf("%zd %.*s", count, (int)count, text);
    struct termios settings;
    must(tcgetattr(slave, &settings) == 0);
    printf("%x %x %d\n", settings.c_lflag, settings.c_oflag, settings.c_cc[VMIN]);
    cfmakeraw(&settings);
    must(tcsetattr(slave, TCSANOW, &settings) == 0 && tcflush(master, TCIOFLUSH) == 0);
    must(write(master, "raw\x7f", 4) == 4 && read(slave, text, sizeof text) == 4);
    must(write(slave, "out\n", 4) == 4);
    count = read(master, text, sizeof text);
    printf("%zd %d\n", count, text[3]);
    return 0;
}
