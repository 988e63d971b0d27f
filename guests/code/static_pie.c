//! A statically linked program that relocates itself.
//! flags: -static-pie -fPIE
//! link: dynamic
#include "guest.h"

static const char *const names[] = {"one", "two", "three"};

int main(void)
{
    must((uintptr_t)main > 1ul << 32);
    for (int i = 0; i < 3; i++)
        puts(names[i]);
    return 0;
}
