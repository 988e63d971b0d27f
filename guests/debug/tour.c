//! A bit of everything that a debugger is asked about: lists, recursion, floats, a signal, a pointer to a
//! function.
//! args: one two
#include "guest.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct item { int number; const char *name; double weight; struct item *next; };
enum colour { RED, GREEN = 5, BLUE };
struct mixed { unsigned flag : 1; unsigned rest : 7; enum colour colour; union { int i; float f; } u; short list[4]; };

int total;
static volatile int signals;
static struct mixed mixed = { 1, 42, GREEN, { 7 }, { 1, 2, 3, 4 } };

static void on_signal(int number)
{
    signals += number;
}

static __attribute__((noipa)) int fibonacci(int n)
{
    if (n < 2)
        return n; // MARK: leaf
    return fibonacci(n - 1) + fibonacci(n - 2);
}

static __attribute__((noipa)) struct item *push(struct item *list, int number, const char *name, double weight)
{
    struct item *item = malloc(sizeof *item);
    *item = (struct item){ number, name, weight, list };
    total += number; // MARK: total
    return item; // MARK: pushed
}

static __attribute__((noipa)) double weigh(const struct item *list, double (*of)(const struct item *))
{
    double sum = 0;
    for (const struct item *i = list; i; i = i->next)
        sum += of(i); // MARK: weigh
    return sum;
}

static __attribute__((noipa)) double single(const struct item *item)
{
    return item->weight * item->number;
}

int main(int argc, char **argv)
{
    struct item *list = NULL;
    const char *names[] = { "apple", "pear", "plum", "quince" };
    char text[32] = "none";
    double sum = 0;
    int i = 0;
    for (i = 0; i < 4; i++)
        list = push(list, i + 1, names[i], 0.5 * i); // MARK: push
    sum = weigh(list, single); // MARK: call
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1); // MARK: raise
    snprintf(text, sizeof text, "%d %.2f", total, sum); // MARK: text
    printf("%s %d %d %d\n", text, fibonacci(10), signals == SIGUSR1, argc); // MARK: print
    mixed.list[2] += argc;
    while (list) {
        struct item *next = list->next;
        free(list);
        list = next;
    }
    return mixed.list[2] == 3 + argc && argv[argc] == NULL ? 0 : 1; // MARK: end
}
