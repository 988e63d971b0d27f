#include <stdio.h>
#include <stdlib.h>

/* Prints the difference of two numbers, plus one unless the first is smaller. */
int main(int argc, char **argv)
{
    int x = atoi(argv[1]), y = atoi(argv[2]);
    int a = x + y;
    if (x < y)
        printf("%d\n", a);
    else
        printf("%d\n", a + 1);
    return 0;
}
