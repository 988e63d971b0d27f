//! What a variable of an optimised function was read from still equals it, so debuggers are told to look there: at
//! memory of the heap, by the register that others have for their frame. What is behind that is no fault.
//! flags: -fomit-frame-pointer
#include "guest.h"

__attribute__((noipa)) static int read_from(const char *given, long far)
{
    register const char *from __asm__("rbp") = given;
    __asm__ volatile("" : "+r"(from));
    char first = *from;
    if (first == '1' && far) {
        int found = from[far];
        return found;
    }
    return 0;
}

int main(void)
{
    char *volatile text = strdup("1234");
    must(text != NULL);
    printf("%c\n", read_from(text, 3));
    free(text);
    return 0;
}
