//! Frees a local array.
//! signal: SIGABRT
//! flags: -Wno-free-nonheap-object
#include "guest.h"

static __attribute__((noinline)) void drop(char *text)
{
    free(text); // MARK: fault
    __asm__ volatile(""); // No jump instead of a call.
}

int main(int argc, char **argv)
{
    (void)argv;
    char here[64] = "local";
    char *volatile text = argc > 1 ? strdup(here) : here; // MARK: cause
    puts(text);
    drop(text);
    return 0;
}
