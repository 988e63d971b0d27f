//! Throws what nobody catches.
//! signal: SIGABRT
#include "guest.h"
#include <stdexcept>

__attribute__((noinline)) static void thrower(int depth)
{
    if (depth == 0)
        throw std::logic_error("nobody listens");
    thrower(depth - 1);
}

int main()
{
    say("throwing");
    try {
        thrower(5);
    } catch (int) {
        say("not this");
    }
    return 0;
}
