//! Uses all of a block that the allocator says there is, which is more than was asked for, and then a byte more.
#include "guest.h"
#include <malloc.h>

int main(int argc, char **argv)
{
    (void)argv;
    char *volatile text = malloc(21);
    size_t room = malloc_usable_size(text);
    must(room > 21);
    for (size_t i = 0; i < room; i++)
        text[i] = (char)i;
    printf("%d\n", text[20]);
    size_t at = room - (argc > 1);
    text[at] = 'x'; // MARK: fault
    free(text);
    return 0;
}
