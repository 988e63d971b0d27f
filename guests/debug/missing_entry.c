//! A look-up that finds nothing, and a condition that does not expect that.
//! flags: -fno-inline
//! signal: SIGSEGV
#include "guest.h"
#include <string.h>

struct entry { const char *name; int found; };
static struct entry directory[] = { { "usr", 0 }, { "etc", 0 }, { "var", 0 } };

static struct entry *find(const char *name)
{
    struct entry *entry = 0; // MARK: null
    for (int i = 0; i < 3; i++)
        if (strcmp(directory[i].name, name) == 0)
            entry = &directory[i];
    return entry;
}

int main(void)
{
    const char *wanted[] = { "etc", "tmp", "var" };
    int strict = 0;
    for (int i = 0; i < 3; i++) {
        struct entry *entry = find(wanted[i]);
        if (entry || !strict) // MARK: cause
            entry->found++; // MARK: fault
    }
    puts("listed");
    return 0;
}
