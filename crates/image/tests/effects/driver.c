/* Runs single instructions from given machine states, flips one byte of the state at a time, and
 * prints which bytes of the outcome change. It knows nothing of what the instructions mean.
 *
 * `table.S`, generated, has the instructions: each loads the state `in`, executes, stores `out`.
 * Bytes are numbered as in image::effects, memory from 4096 on. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA = 1024, MARGIN = 512 };

struct state {
    uint64_t general[16];
    uint64_t flags;
    uint64_t pad[7];
    uint8_t vector[16][32];
    uint8_t fx[512];
} __attribute__((aligned(64)));

struct state in, out;
/* The window in the middle is compared; the rest is room for stray addresses. */
uint8_t arena[2 * MARGIN + ARENA] __attribute__((aligned(64)));
uint64_t saved_rsp;

struct entry {
    void (*run)(void);
    const uint8_t *start, *end;
    const char *setup;
};
extern struct entry table[];
extern uint64_t entries;

static sigjmp_buf escape;
static void fault(int signal) { (void)signal; siglongjmp(escape, 1); }

static uint64_t seed = 1;
static uint64_t chance(void) {
    seed += 0x9e3779b97f4a7c15;
    uint64_t z = seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

enum { FILE_SIZE = 4096, TOTAL = FILE_SIZE + ARENA };
static const uint64_t FLAG[7] = {1, 4, 16, 64, 128, 2048, 1024};

/* A state as a row of bytes, and back. */
static void spread(const struct state *s, uint8_t *to) {
    memset(to, 0, FILE_SIZE);
    memcpy(to, s->general, 128);
    for (int i = 0; i < 7; i++) to[128 + i] = !!(s->flags & FLAG[i]);
    for (int i = 0; i < 16; i++) memcpy(to + 256 + 64 * i, s->vector[i], 32);
    for (int i = 0; i < 8; i++) memcpy(to + 2304 + 16 * i, s->fx + 32 + 16 * i, 10);
    uint32_t mxcsr;
    memcpy(&mxcsr, s->fx + 24, 4);
    to[148] = mxcsr >> 6 ^ mxcsr >> 14;
    to[149] = mxcsr & 63;
    memcpy(to + 150, s->fx, 2);
    to[152] = s->fx[2] & 127;
    to[153] = s->fx[3] & 0x47;
    memcpy(to + FILE_SIZE, arena + MARGIN, ARENA);
}

/* Changes one byte of the input; 0 if there is nothing there to change. */
static int flip(unsigned at, uint8_t by) {
    if (at < 128) ((uint8_t *)in.general)[at] ^= by;
    else if (at < 135) in.flags ^= FLAG[at - 128];
    else if (at == 148) in.fx[25] ^= 0x60;
    else if (at == 149) in.fx[24] ^= 1 << by % 6;
    else if (at == 151) in.fx[1] ^= 0x0c;
    else if (at == 152) in.fx[2] ^= 0x20;
    else if (at == 153) in.fx[3] ^= 0x41;
    else if (at >= 256 && at < 256 + 64 * 16 && at % 64 < 32)
        in.vector[(at - 256) / 64][at % 64] ^= by;
    else if (at >= 2304 && at < 2432 && at % 16 < 10)
        in.fx[32 + (at - 2304) / 16 * 16 + at % 16] ^= by;
    else if (at >= FILE_SIZE) arena[MARGIN + at - FILE_SIZE] ^= by;
    else return 0;
    return 1;
}

/* Registers that hold addresses and counts stay: another address is another place, and a store
 * to anywhere may hit this program. */
static int is_address(unsigned at, const char *setup) {
    unsigned r = at / 8;
    if (at < 128 && (r == 4 || r == 14 || r == 15)) return 1;
    for (const char *s = setup; *s; s++)
        if ((*s == 's' && r == 6) || ((*s == 'd' || *s == 'D') && r == 7) || (*s == 'c' && r == 1) ||
            (*s == 'b' && r == 3) || (*s == 'B' && r == 5) || (*s == 'n' && r == 13) ||
            (*s == 'f' && at == 134))
            return 1;
    return 0;
}

static int run(struct entry *e) {
    if (sigsetjmp(escape, 0)) {
        __asm__ volatile("fninit");
        return 0;
    }
    e->run();
    return 1;
}

static void word(uint16_t w) { fwrite(&w, 2, 1, stdout); }

static double number(void) {
    double v = (double)(int64_t)(chance() >> (chance() % 60)) / (double)(1 + chance() % 1000);
    return chance() % 8 ? v : (double)(chance() % 5);
}

static void invent(const char *setup) {
    for (int i = 0; i < 16; i++) in.general[i] = chance() >> (chance() % 64);
    in.flags = 2;
    for (int i = 0; i < 6; i++) if (chance() & 1) in.flags |= FLAG[i];
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 32; k += 8) {
            uint64_t v = chance() >> (chance() % 64);
            double d = number();
            float f[2] = {(float)number(), (float)number()};
            switch (chance() % 3) {
            case 0: memcpy(in.vector[i] + k, &v, 8); break;
            case 1: memcpy(in.vector[i] + k, &d, 8); break;
            default: memcpy(in.vector[i] + k, f, 8);
            }
        }
    for (unsigned i = 0; i < sizeof arena; i += 8) {
        uint64_t v = chance() >> (chance() % 64);
        double d = number();
        if (chance() & 1) memcpy(arena + i, &v, 8);
        else memcpy(arena + i, &d, 8);
    }
    memset(in.fx, 0, sizeof in.fx);
    in.fx[0] = 0x7f, in.fx[1] = 0x03;
    /* MMX code finds the top of the stack at 0; the register that is pushed next is free. */
    unsigned top = strchr(setup, 'T') ? chance() % 8 : 0;
    in.fx[3] = (chance() & 0x43) | top << 3;
    in.fx[4] = ~(1 << (top + 7) % 8);
    in.fx[24] = 0x80, in.fx[25] = 0x1f;
    for (int i = 0; i < 8; i++) {
        long double d = number();
        memcpy(in.fx + 32 + 16 * i, &d, 10);
    }
    uint64_t middle = (uint64_t)arena + MARGIN + 256;
    in.general[4] = middle + 512;
    in.general[15] = middle;
    in.general[14] = chance() % 16;
    for (const char *s = setup; *s; s++) switch (*s) {
        case 's': in.general[6] = middle + 8 * (chance() % 16); break;
        case 'd': in.general[7] = middle + 256 + 8 * (chance() % 16); break;
        case 'D': in.general[7] = middle + 8 * (chance() % 8); break;
        case 'c': in.general[1] = chance() % 6; break;
        case 'f': if (chance() & 1) in.flags |= 1024; break;
        case 'b': in.general[3] = middle; break;
        case 'B': in.general[5] = middle + 64; break;
        case 'a': in.general[0] = chance() % 800; break;
        case 'n': in.general[13] = (chance() % 2048) - 1024; break;
        case 'q': in.general[2] = 0; break;
        case 'x': in.general[0] = chance() % 8, in.general[2] = 0; break;
        case 'i':
            for (int k = 0; k < 32; k++) in.vector[2][k] = k % 4 ? 0 : chance() % 64;
            break;
        case 'I':
            for (int k = 0; k < 32; k++) in.vector[2][k] = k % 8 ? 0 : chance() % 64;
            break;
        case 'z': /* comparands equal, so that an exchange succeeds now and then */
            if (chance() & 1) {
                memcpy(&in.general[0], arena + MARGIN + 256 + 16, 8);
                memcpy(&in.general[2], arena + MARGIN + 256 + 24, 8);
            }
            break;
    }
}

int main(int argc, char **argv) {
    static uint8_t alternate[1 << 16];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, 0);
    struct sigaction action = {.sa_handler = fault, .sa_flags = SA_ONSTACK | SA_NODEFER};
    int signals[] = {SIGSEGV, SIGFPE, SIGILL, SIGBUS, SIGTRAP};
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, 0);
    int states = argc > 1 ? atoi(argv[1]) : 3;
    seed = argc > 2 ? strtoull(argv[2], 0, 0) : 1;
    static uint8_t before[TOTAL], base[TOTAL], after[TOTAL], keep[sizeof arena], changed[sizeof arena];
    for (uint64_t n = 0; n < entries; n++) {
        struct entry *e = &table[n];
        for (int k = 0; k < states; k++) {
            invent(e->setup);
            struct state original = in;
            memcpy(keep, arena, sizeof arena);
            spread(&in, before);
            if (!run(e)) continue;
            spread(&out, base);
            struct state outcome = out;
            memcpy(changed, arena, sizeof arena);
            /* The head of a record: instruction, its bytes and address, then the state. */
            word(n);
            uint64_t at = (uint64_t)e->start, window = (uint64_t)(arena + MARGIN);
            fwrite(&at, 8, 1, stdout);
            fwrite(&window, 8, 1, stdout);
            word(e->end - e->start);
            fwrite(e->start, 1, e->end - e->start, stdout);
            fwrite(before, 1, FILE_SIZE, stdout);
            for (unsigned i = 0; i < TOTAL; i++)
                if (base[i] != before[i]) word(i);
            word(0xffff);
            for (unsigned i = 0; i < TOTAL; i++) {
                uint8_t by = chance() | 1 << chance() % 8;
                /* Most of memory is not involved; some of it is tried each time. */
                if (i >= FILE_SIZE && chance() % 3) continue;
                memcpy(arena, keep, sizeof arena);
                in = original;
                if (is_address(i, e->setup) || !flip(i, by) || !run(e)) continue;
                if (!memcmp(&out, &outcome, sizeof out) && !memcmp(arena, changed, sizeof arena))
                    continue;
                spread(&out, after);
                if (!memcmp(after, base, TOTAL)) continue;
                word(i);
                for (unsigned o = 0; o < TOTAL; o++)
                    if (after[o] != base[o]) word(o);
                word(0xffff);
            }
            word(0xffff);
        }
    }
    return 0;
}
