//! Closes a descriptor twice.
#include "guest.h"
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    (void)argv;
    int one = open("/dev/null", O_RDONLY);
    close(one);
    if (argc > 1)
        one = open("/dev/null", O_RDONLY); // MARK: cause
    close(one); // MARK: fault
    return 0;
}
