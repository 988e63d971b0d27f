//! Finds itself in the directory it was started in, and moves about.
//! file: here.txt content
#include "guest.h"
#include <limits.h>
#include <sys/stat.h>

int main(void)
{
    char start[PATH_MAX], below[PATH_MAX];
    must(getcwd(start, sizeof start) != NULL);
    printf("%s\n", start);
    must(access("here.txt", R_OK) == 0);
    must(mkdir("below", 0755) == 0 && chdir("below") == 0);
    must(getcwd(below, sizeof below) != NULL);
    must(strncmp(start, below, strlen(start)) == 0);
    printf("then%s\n", below + strlen(start));
    must(access("../here.txt", R_OK) == 0 && chdir("..") == 0);
    char again[PATH_MAX];
    must(realpath(".", again) != NULL && strcmp(again, start) == 0);
    must(rmdir("below") == 0);
    return 0;
}
