//! Copies a block over itself with memcpy.
//! flags: -Wno-restrict -fno-builtin
#include "guest.h"

int main(int argc, char **argv)
{
    (void)argv;
    char *volatile text = malloc(100);
    memset(text, 'x', 100);
    memcpy(text + (argc > 1 ? 50 : 8), text, 40); // MARK: fault
    printf("%c\n", text[10]);
    free(text);
    return 0;
}
