//! Red-black tree: insertions and lookups in random order.
#include "guest.h"

struct node { struct node *link[2]; uint64_t key; int red; };
static struct node *root;

static int is_red(const struct node *node) { return node && node->red; }

static struct node *rotate(struct node *node, int side)
{
    struct node *save = node->link[!side];
    node->link[!side] = save->link[side];
    save->link[side] = node;
    node->red = 1;
    save->red = 0;
    return save;
}

static struct node *insert(struct node *node, uint64_t key)
{
    if (!node) {
        node = calloc(1, sizeof *node);
        node->key = key;
        node->red = 1;
        return node;
    }
    if (key == node->key)
        return node;
    int side = node->key < key;
    node->link[side] = insert(node->link[side], key);
    if (is_red(node->link[side])) {
        if (is_red(node->link[!side])) {
            node->red = 1;
            node->link[0]->red = node->link[1]->red = 0;
        } else if (is_red(node->link[side]->link[side])) {
            node = rotate(node, !side);
        } else if (is_red(node->link[side]->link[!side])) {
            node->link[side] = rotate(node->link[side], side);
            node = rotate(node, !side);
        }
    }
    return node;
}

int main(int argc, char **argv)
{
    uint64_t state = 1, found = 0;
    int count = reduced(500000, argc, argv);
    for (int i = 0; i < count; i++) {
        root = insert(root, draw(&state) >> 40);
        root->red = 0;
    }
    for (int i = 0; i < count; i++) {
        uint64_t key = draw(&state) >> 40;
        struct node *node = root;
        while (node && node->key != key)
            node = node->link[node->key < key];
        found += node != NULL;
    }
    printf("%lu\n", found);
    return 0;
}
