//! Writes past the end of a block into the middle of another that lives: no red zone would see that.
#include "guest.h"

int main(int argc, char **argv)
{
    (void)argv;
    char *volatile a = malloc(24);
    char *volatile b = malloc(24);
    memset(a, 1, 24);
    memset(b, 2, 24);
    long far = argc > 1 ? 8 : 40; // MARK: cause
    a[far] = 7; // MARK: fault
    printf("%d\n", a[0]);
    free(a);
    free(b);
    return 0;
}
