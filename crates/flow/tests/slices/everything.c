// Everything that a slice has to follow, in a program without a library.
static long call(long n, long a, long b, long c) {
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return r;
}
volatile long result;
struct pair { int a; short b; char c; struct pair *next; };
static struct pair pairs[8];
static int table[16];
static void *place[5];
static long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static int twice(int x) { return 2 * x; }
static int less(int x) { return x - 3; }
static int (*choice[2])(int) = {twice, less};
static void copy(char *to, const char *from, int n) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}
static int pick(int x) {
    switch (x & 7) {
    case 0: return 10;
    case 1: return table[1];
    case 2: x += 5;
    case 3: return x * 2;
    case 4: return -x;
    case 5: return 77;
    default: return x;
    }
}
static __attribute__((noinline)) void leap(int x) {
    if (x > 3) __builtin_longjmp(place, 1);
}
void _start(void) {
    long sum = 0;
    for (int i = 0; i < 16; i++) {
        table[i] = i * i - 3 * i;
        if (i == 11) continue;
        sum += choice[i & 1](table[i]);
    }
    for (int i = 0; i < 8; i++) {
        pairs[i].a = pick(i);
        pairs[i].b = i;
        pairs[i].c = (char)(i * 31);
        pairs[i].next = i ? &pairs[i - 1] : 0;
    }
    struct pair other;
    copy((char *)&other, (char *)&pairs[5], sizeof other);
    for (struct pair *p = &pairs[7]; p; p = p->next) {
        if (p->a < 0) break;
        sum += p->a + p->b + p->c;
    }
    sum += other.a;
    int i = 0;
again:
    i++;
    if (i < 4) goto again;
    if (!__builtin_setjmp(place)) {
        for (int k = 0; k < 10; k++) leap(k);
    } else {
        sum += 1000;
    }
    double d = 1.5;
    for (int k = 0; k < 5; k++) d = d * 1.25 + k;
    sum += (long)d + fib(9) + call(39, 0, 0, 0) * 0;
    result = sum;
    call(231, sum & 127, 0, 0);
}
