//! Two sums that are made by the same statement and have nothing to do with each other, and calls of library
//! functions whose arguments, results and effects are known.
//! flags: -fno-inline -fno-builtin
#include "guest.h"

static int odd, even, factor, offset;
static char text[32], other[32];

static void add(int *to, int n)
{
    *to += n; // MARK: add
}

static void sums(void)
{
    for (int i = 1; i <= 6; i++) { // MARK: loop
        if (i % 2) // MARK: test
            add(&odd, i * factor); // MARK: odd
        else
            add(&even, i + offset); // MARK: even
    }
}

static int calls(void)
{
    char *first = malloc(100); // MARK: first
    char *second = malloc(200); // MARK: second
    strcpy(text, "short"); // MARK: short
    strcpy(text, "long enough to be seen"); // MARK: long
    strcpy(other, "not in the first text at all"); // MARK: other
    int length = strlen(text) + strlen(other); // MARK: length
    free(first); // MARK: free
    free(second); // MARK: free second
    return length;
}

int main(int argc, char **argv)
{
    factor = argc + 2; // MARK: factor
    offset = argc - 1; // MARK: offset
    sums(); // MARK: sums
    int result = odd; // MARK: result
    int length = calls(); // MARK: calls
    printf("%d %d %d\n", result, even, length); // MARK: print
    return result == 27 && even == 12 && length == 50 && argv[argc] == 0 ? 0 : 1; // MARK: end
}
