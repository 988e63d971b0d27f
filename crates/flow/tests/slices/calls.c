// Loops in which control goes into functions and out of them in ever other ways: a search that goes left or right,
// recursion that returns through many calls at once, calls and jumps through pointers, and a jump out of them.
typedef unsigned long u64;

struct node { struct node *left, *right; u64 key, times; };

static struct node nodes[64];
static u64 used, state = 7;
static void *out[5];
volatile u64 result;

static u64 draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static struct node *root;

__attribute__((noinline)) static struct node *insert(u64 key)
{
    struct node **at = &root;
    while (*at && (*at)->key != key)
        at = key < (*at)->key ? &(*at)->left : &(*at)->right;
    if (!*at) {
        *at = &nodes[used++];
        (*at)->key = key;
    }
    (*at)->times++;
    return *at;
}

__attribute__((noinline)) static u64 depth(struct node *n)
{
    if (!n)
        return 0;
    u64 left = depth(n->left), right = depth(n->right);
    return 1 + (left < right ? right : left);
}

__attribute__((noinline)) static u64 twice(u64 n) { return 2 * n; }
__attribute__((noinline)) static u64 next(u64 n) { return n + 1; }
__attribute__((noinline)) static u64 both(u64 n) { return twice(next(n)); }
static u64 (*const calls[])(u64) = { twice, next, both };

__attribute__((noinline)) static void leave(u64 n)
{
    if (n)
        leave(n - 1);
    __builtin_longjmp(out, 1);
}

__attribute__((noinline)) static u64 jumps(u64 n)
{
    static void *const places[] = { &&even, &&odd, &&end };
    u64 sum = 0;
    goto *places[n % 3];
even:
    sum += 3;
odd:
    sum ^= n;
end:
    return sum;
}

__attribute__((noinline)) static void away(u64 n)
{
    if (!__builtin_setjmp(out))
        leave(n);
}

void _start(void)
{
    u64 sum = 0;
    for (int i = 0; i < 70; i++) {
        u64 key = draw() % 48;
        sum += insert(key)->times;
        sum ^= calls[draw() % 3](sum & 0xff);
        sum += jumps(draw());
        if (i % 16 == 3)
            sum += depth(root);
        if (i % 32 == 5)
            away(key % 5);
    }
    result = sum;
    __asm__ volatile("mov $60, %eax; xor %edi, %edi; syscall");
}
