//! For slices: rounds of pointers, sorting and a tree, each on what the one before has left.
#include "guest.h"

enum { ITEMS = 256, KEYS = 1 << 14 };
struct node { struct node *left, *right; uint64_t key, times; };
struct cell { struct cell *next; uint64_t value; };

static struct node *root;
static struct cell *list;
static uint64_t items[ITEMS];

static struct node *insert(uint64_t key)
{
    struct node **at = &root;
    while (*at && (*at)->key != key)
        at = key < (*at)->key ? &(*at)->left : &(*at)->right;
    if (!*at) {
        *at = calloc(1, sizeof **at);
        (*at)->key = key;
    }
    (*at)->times++;
    return *at;
}

static void sort(uint64_t *low, uint64_t *high)
{
    while (high - low > 1) {
        uint64_t pivot = low[(high - low) / 2], *i = low, *j = high - 1;
        while (i <= j) {
            while (*i < pivot)
                i++;
            while (pivot < *j)
                j--;
            if (i <= j) {
                uint64_t save = *i;
                *i++ = *j;
                *j-- = save;
            }
        }
        sort(low, j + 1);
        low = i;
    }
}

static void push(uint64_t value)
{
    struct cell *cell = malloc(sizeof *cell);
    cell->value = value;
    cell->next = list;
    list = cell;
}

static uint64_t drop(void)
{
    uint64_t sum = 0;
    while (list) {
        struct cell *next = list->next;
        sum += list->value;
        free(list);
        list = next;
    }
    return sum;
}

static void work(uint64_t *state)
{
    for (int i = 0; i < ITEMS; i++)
        items[i] = draw(state) % KEYS;
    sort(items, items + ITEMS);
    for (int i = 0; i < ITEMS; i++)
        push(insert(items[i] * 7919 % KEYS)->times);
    *state += drop();
}

__attribute__((noinline)) static uint64_t answers(uint64_t state)
{
    volatile uint64_t sum = state; // MARK: first
    sum += root->times;
    sum += root->key;
    sum += root->left->times;
    sum += root->left->key;
    sum += root->right->times;
    sum += root->right->key;
    sum += insert(1)->times;
    sum += insert(KEYS / 2)->times;
    sum += insert(KEYS - 1)->times;
    sum += items[0];
    sum += items[1];
    sum += items[ITEMS / 4];
    sum += items[ITEMS / 2];
    sum += items[ITEMS - 1];
    push(sum);
    push(items[2]);
    sum += list->value;
    sum += list->next->value;
    sum += drop(); // MARK: last
    return sum;
}

int main(int argc, char **argv)
{
    uint64_t state = 5;
    must(argc == 2);
    for (long rounds = atol(argv[1]); rounds > 0; rounds--)
        work(&state);
    printf("%016lx\n", answers(state));
    return 0;
}
