//! Atomic operations with every ordering, on every width, by several threads at once.
//! flags: -pthread -mcx16
#include "guest.h"
#include <pthread.h>
#include <stdatomic.h>

enum { COUNT = 4, ROUNDS = 3000 };
static _Atomic uint8_t a8;
static _Atomic uint16_t a16;
static _Atomic uint32_t a32;
static _Atomic uint64_t a64;
static _Atomic(uint32_t) bits, largest;
static atomic_flag spin = ATOMIC_FLAG_INIT;
static uint64_t guarded;
static _Atomic int published;
static int payload;

static void *work(void *argument)
{
    uint32_t self = (uint32_t)(uintptr_t)argument;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        atomic_fetch_add_explicit(&a8, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&a16, 1, memory_order_consume);
        atomic_fetch_add_explicit(&a32, i, memory_order_acquire);
        atomic_fetch_xor_explicit(&a64, (uint64_t)i << self, memory_order_release);
        atomic_fetch_or_explicit(&bits, 1u << (i % 32), memory_order_acq_rel);
        uint32_t seen = atomic_load_explicit(&largest, memory_order_relaxed);
        uint32_t mine = i * (self + 1);
        while (seen < mine &&
               !atomic_compare_exchange_weak_explicit(&largest, &seen, mine, memory_order_seq_cst,
                                                      memory_order_acquire))
            ;
        while (atomic_flag_test_and_set_explicit(&spin, memory_order_acquire))
            __builtin_ia32_pause();
        guarded += i;
        atomic_flag_clear_explicit(&spin, memory_order_release);
        atomic_thread_fence(memory_order_seq_cst);
    }
    if (self == 0) {
        payload = 42;
        atomic_store_explicit(&published, 1, memory_order_release);
    } else {
        while (!atomic_load_explicit(&published, memory_order_acquire))
            __builtin_ia32_pause();
        must(payload == 42);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[COUNT];
    for (uintptr_t i = 0; i < COUNT; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < COUNT; i++)
        must(pthread_join(threads[i], NULL) == 0);
    uint64_t old = atomic_exchange_explicit(&a64, 5, memory_order_seq_cst);
    printf("%u %u %u %lx %x %u %lu\n", a8, a16, a32, old, bits, largest, guarded);
    return 0;
}
