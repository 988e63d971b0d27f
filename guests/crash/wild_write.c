//! Writes through a pointer that was overwritten with text.
//! signal: SIGSEGV
#include "guest.h"

struct record { char name[8]; char *out; };

static __attribute__((noinline)) void rename_to(struct record *record, const char *name)
{
    for (size_t i = 0; name[i]; i++)
        ((volatile char *)record)[i] = name[i]; // MARK: cause
}

int main(void)
{
    char room[64];
    struct record record = {"short", room};
    rename_to(&record, "fine");
    record.out[0] = 'a';
    say("before");
    rename_to(&record, "far-too-long-name");
    *(volatile char *)record.out = 'b'; // MARK: fault
    return 0;
}
