//! Reads /proc/self: maps, stat, status, cmdline and exe name the guest, not its engine.
//! nondeterministic: addresses and counters differ from run to run
//! args: --flag value
#include "guest.h"
#include <fcntl.h>

static ssize_t slurp(const char *path, char *to, size_t room)
{
    int fd = open(path, O_RDONLY);
    must(fd >= 0);
    size_t count = 0;
    ssize_t got;
    while ((got = read(fd, to + count, room - count - 1)) > 0)
        count += (size_t)got;
    to[count] = 0;
    close(fd);
    return (ssize_t)count;
}

int main(int argc, char **argv)
{
    static char text[1 << 20];
    must(argc == 3);
    slurp("/proc/self/maps", text, sizeof text);
    fputs(text, stdout);
    must(strstr(text, "[stack]") != NULL);
    slurp("/proc/self/stat", text, sizeof text);
    fputs(text, stdout);
    must(slurp("/proc/self/cmdline", text, sizeof text) > 0 && strcmp(text, argv[0]) == 0);
    must(strcmp(text + strlen(text) + 1, "--flag") == 0);
    char link[4096] = {0}, name[4096];
    must(readlink("/proc/self/exe", link, sizeof link - 1) > 0 && realpath(argv[0], name) != NULL);
    must(strcmp(link, name) == 0);
    char comm[64];
    slurp("/proc/self/comm", comm, sizeof comm);
    must(strncmp(comm, strrchr(argv[0], '/') + 1, 15) == 0 || strlen(comm) <= 16);
    fputs(comm, stdout);
    return 0;
}
