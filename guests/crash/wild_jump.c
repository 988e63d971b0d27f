//! Jumps into data, which is not executable.
//! signal: SIGSEGV
#include "guest.h"

static volatile unsigned char data[] = {0x90, 0xc3};

int main(void)
{
    say("jumping");
    ((void (*)(void))(uintptr_t)data)();
    return 0;
}
