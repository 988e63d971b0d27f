//! Becomes another program, found along PATH.
//! exit: 5
#include "guest.h"

int main(void)
{
    say("before");
    execlp("sh", "sh", "-c", "echo after; exit 5", (char *)NULL);
    return 1;
}
