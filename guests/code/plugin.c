//! Loads, uses and unloads shared objects over and over, often at the same addresses.
//! link: dynamic
//! plugin: guests/code/plugin/red.c guests/code/plugin/green.c
//! libs: -ldl
#include "guest.h"
#include <dlfcn.h>

static int back(int x) { return x + 2; }

int main(void)
{
    static const char *const names[] = {"./red.so", "./green.so"};
    uint64_t sum = MIX_START;
    for (int round = 0; round < 10; round++) {
        void *library = dlopen(names[round % 2], round % 3 ? RTLD_LAZY : RTLD_NOW);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        int (*apply)(int, int (*)(int)) = (int (*)(int, int (*)(int)))(uintptr_t)dlsym(library, "apply");
        must(apply != NULL && dlsym(library, "no_such_name") == NULL);
        for (int i = 0; i < 100; i++)
            sum = mix(sum, (uint64_t)apply(i, back));
        must(dlclose(library) == 0);
    }
    must(dlopen("./absent.so", RTLD_NOW) == NULL);
    puts(dlerror());
    printf("%016lx\n", sum);
    return 0;
}
