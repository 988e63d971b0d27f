//! A table is cleared as far as another one reaches, over what lies behind it on the heap.
//! flags: -fno-inline -fno-builtin
//! signal: SIGSEGV
#include "guest.h"

struct function { const char *name; int calls; };
static struct function print = { "print", 0 }, length = { "length", 0 };

static int v_count, a_count;
static char **variables;
static void **arrays;
static struct function **functions;

static void more_variables(int count)
{
    variables = realloc(variables, count * sizeof *variables);
    while (v_count < count)
        variables[v_count++] = NULL;
}

static void more_arrays(int count)
{
    void **old = arrays;
    int i;
    arrays = malloc(count * sizeof *arrays);
    for (i = 0; i < a_count; i++)
        arrays[i] = old[i];
    for (; i < v_count; i++) // MARK: cause
        arrays[i] = NULL; // MARK: write
    a_count = count;
    free(old);
}

static void call(int number)
{
    functions[number]->calls++; // MARK: fault
}

int main(void)
{
    more_variables(32);
    char *line = malloc(64);
    strcpy(line, "define f(x) { return x[0]; }");
    functions = malloc(8 * sizeof *functions);
    functions[0] = &print;
    functions[1] = &length;
    free(line);
    more_arrays(8); // MARK: call
    call(0);
    call(1);
    puts("done");
    return 0;
}
