//! The smallest program that says something.
#include "guest.h"

int main(void)
{
    puts("hello");
    return 0;
}
