//! Reallocates a block that was freed.
//! signal: SIGABRT
//! flags: -Wno-use-after-free
#include "guest.h"

int main(int argc, char **argv)
{
    (void)argv;
    char *volatile text = malloc(1000);
    char *volatile wall = malloc(10);
    strcpy(text, "text");
    if (argc == 1)
        free(text); // MARK: cause
    text = realloc(text, 100000); // MARK: fault
    puts(text ? "moved" : "gone");
    free(text);
    free(wall);
    return 0;
}
