//! Too much is written to an array, and nobody notices, because nothing of importance is behind it.
//! flags: -fno-stack-protector -U_FORTIFY_SOURCE -fno-builtin
#include "guest.h"
#include <string.h>

static int answer(void)
{
    return 42;
}

char label[8];
char unused[64];
int (*action)(void) = answer;

int main(void)
{
    unused[40] = 'x';
    strcpy(label, "a label with room for its end");
    printf("%d %c %c\n", action(), label[0], unused[40]);
    return 0;
}
