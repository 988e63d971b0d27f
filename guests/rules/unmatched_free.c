//! Frees a pointer that was moved on.
//! signal: SIGABRT
//! flags: -Wno-free-nonheap-object
#include "guest.h"

static __attribute__((noinline)) char *skip(char *text)
{
    while (*text == ' ')
        text++; // MARK: cause
    return text;
}

int main(int argc, char **argv)
{
    char *text = strdup(argc > 1 ? argv[1] : "  indented");
    text = skip(text);
    puts(text);
    free(text); // MARK: fault
    return 0;
}
