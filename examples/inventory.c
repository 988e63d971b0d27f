// A small shop keeps its stock in a list and remembers the item that sold best. One day it stops selling that
// item, and some time later the program dies far away from the mistake.
//
//     cc -g -o target/inventory examples/inventory.c
//     wherefore run -- target/inventory
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item {
    char *name;
    int sold;
    struct item *next;
};

struct shop {
    struct item *stock;
    struct item *favourite; // the item that sold best so far
};

static void add(struct shop *shop, const char *name)
{
    struct item *item = malloc(sizeof *item);
    item->name = strdup(name);
    item->sold = 0;
    item->next = shop->stock;
    shop->stock = item;
}

static struct item *find(struct shop *shop, const char *name)
{
    struct item *item = shop->stock;
    while (item && strcmp(item->name, name) != 0)
        item = item->next;
    return item;
}

static void sell(struct shop *shop, const char *name, int count)
{
    struct item *item = find(shop, name);
    if (!item) {
        printf("%s: not in stock\n", name);
        return;
    }
    item->sold += count;
    if (!shop->favourite || item->sold > shop->favourite->sold)
        shop->favourite = item;
}

static void discontinue(struct shop *shop, const char *name)
{
    for (struct item **link = &shop->stock; *link; link = &(*link)->next) {
        struct item *item = *link;
        if (strcmp(item->name, name) == 0) {
            *link = item->next;
            free(item->name);
            free(item); // shop->favourite may still point here
            return;
        }
    }
}

// Twenty-four bytes, as large as an item: the allocator gives it the place of the item freed last.
struct order {
    long number;
    long customer;
    long total;
};

static struct order *take_order(long number, long customer, long total)
{
    struct order *order = malloc(sizeof *order);
    *order = (struct order){number, customer, total};
    return order;
}

static int width(const char *text)
{
    int count = 0;
    while (text[count])
        count++;
    return count;
}

static void print_poster(const struct shop *shop)
{
    int stars = width(shop->favourite->name) + 4;
    for (int i = 0; i < stars; i++)
        putchar('*');
    printf("\n* %s *\n", shop->favourite->name);
}

int main(void)
{
    struct shop shop = {NULL, NULL};
    add(&shop, "teapot");
    add(&shop, "kettle");
    add(&shop, "sieve");
    sell(&shop, "kettle", 3);
    sell(&shop, "teapot", 9);
    sell(&shop, "sieve", 4);
    print_poster(&shop);
    fflush(stdout);

    discontinue(&shop, "teapot");
    struct order *order = take_order(1001, 77, 2500);
    printf("order %ld of customer %ld\n", order->number, order->customer);
    fflush(stdout);
    print_poster(&shop);
    free(order);
    return 0;
}
