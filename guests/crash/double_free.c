//! Frees the same block twice; the C library notices and aborts.
//! signal: SIGABRT
//! flags: -Wno-use-after-free
#include "guest.h"

int main(void)
{
    char *volatile block = malloc(40);
    strcpy(block, "once");
    say(block);
    free(block);
    free(block); // MARK: fault
    return 0;
}
