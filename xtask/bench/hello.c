//! The cost of starting and ending.
#include "guest.h"

int main(void)
{
    puts("hello");
    return 0;
}
