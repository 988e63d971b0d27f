//! Allocates, resizes and frees blocks of all sizes in random order and checks what is in them.
#include "guest.h"

int main(void)
{
    enum { SLOTS = 700 };
    static unsigned char *slots[SLOTS];
    static size_t sizes[SLOTS];
    uint64_t state = 12345, sum = MIX_START;
    for (int i = 0; i < 40000; i++) {
        size_t slot = draw(&state) % SLOTS, size = draw(&state) % 2000 + 1;
        if (draw(&state) % 50 == 0)
            size *= 200;
        if (slots[slot])
            sum = mix(sum, slots[slot][0] + slots[slot][sizes[slot] - 1]);
        if (draw(&state) % 3 == 0) {
            free(slots[slot]);
            slots[slot] = NULL;
            continue;
        }
        slots[slot] = realloc(slots[slot], size);
        must(slots[slot] != NULL);
        sizes[slot] = size;
        slots[slot][0] = slots[slot][size - 1] = (unsigned char)i;
    }
    for (int i = 0; i < SLOTS; i++)
        free(slots[i]);
    void *aligned;
    must(posix_memalign(&aligned, 4096, 100) == 0 && (uintptr_t)aligned % 4096 == 0);
    free(aligned);
    printf("%016lx\n", sum);
    return 0;
}
