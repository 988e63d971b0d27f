//! Calls through tables, members and pointers chosen at run time, megamorphic at one site.
#include "guest.h"

#define STEP(n) \
    static __attribute__((noinline)) uint64_t step##n(uint64_t x) { return (x + n) * (2 * n + 1); }
STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
STEP(8) STEP(9) STEP(10) STEP(11) STEP(12) STEP(13) STEP(14) STEP(15)

typedef uint64_t (*step_fn)(uint64_t);
static step_fn steps[] = {step0, step1, step2,  step3,  step4,  step5,  step6,  step7,
                          step8, step9, step10, step11, step12, step13, step14, step15};
struct object { step_fn apply; uint64_t state; };

static __attribute__((noinline)) step_fn choose(uint64_t n) { return steps[n & 15]; }

int main(void)
{
    struct object object = {step3, 1};
    uint64_t state = 99;
    for (int i = 0; i < 100000; i++) {
        object.state = object.apply(object.state);
        object.apply = choose(draw(&state) >> 7);
        object.state ^= steps[i & 15](object.state);
    }
    printf("%016lx\n", object.state);
    return 0;
}
