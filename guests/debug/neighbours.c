//! A program that tells how far apart its variables are, which is nobody's business.
#include "guest.h"

// Somebody may look at it.
#define KEEP(what) __asm__ volatile("" : : "r"(what) : "memory")

char first[40];
int second[6];
char third[24] = "third";

__attribute__((noinline)) static void locals(void)
{
    char low[24];
    int middle[10];
    char high[56];
    for (int i = 0; i < 10; i++)
        low[i] = high[i] = (char)(middle[i] = i);
    KEEP(low);
    KEEP(middle);
    KEEP(high);
    printf("%d %d\n", (char *)low < (char *)middle, (char *)middle < (char *)high);
}

int main(void)
{
    KEEP(first);
    KEEP(second);
    KEEP(third);
    printf("%d %d %s\n", (int)((char *)second - first), (int)(third - (char *)second), third);
    locals();
    return 0;
}
