//! Copies a string into a block that is one byte short for it.
//! flags: -Wno-stringop-overflow -fno-builtin
#include "guest.h"

static __attribute__((noinline)) char *twin(const char *text, size_t extra)
{
    char *out = malloc(strlen(text) + extra); // MARK: cause
    strcpy(out, text); // MARK: fault
    return out;
}

int main(int argc, char **argv)
{
    (void)argv;
    char *text = twin("exactly sixteen.", argc > 1);
    printf("%d\n", text[0]);
    free(text);
    return 0;
}
