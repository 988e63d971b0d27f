// A plug-in of code/plugin.c.
#include <stdio.h>

static int calls;
__attribute__((constructor)) static void loaded(void) { puts("red loaded"); }
__attribute__((destructor)) static void unloaded(void) { printf("red unloaded after %d\n", calls); }
int apply(int x, int (*back)(int)) { calls++; return back(x * 3) + 1; }
