//! Moves a text to the right with strcpy.
//! flags: -Wno-restrict -fno-builtin
#include "guest.h"

int main(int argc, char **argv)
{
    (void)argv;
    char *volatile text = malloc(100);
    strcpy(text, "a text");
    strcpy(text + (argc > 1 ? 7 : 6), text); // MARK: fault
    // So much would reach the copy, if there was so much.
    strncpy(text + 20, text, 30);
    printf("%c\n", text[8]);
    free(text);
    return 0;
}
