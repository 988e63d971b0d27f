//! Passes integers, doubles and structures through variable argument lists.
#include "guest.h"
#include <stdarg.h>

struct pair { long a; double b; };
struct big { long words[5]; };

static __attribute__((noinline)) double gather(const char *kinds, ...)
{
    va_list list, copy;
    va_start(list, kinds);
    va_copy(copy, list);
    double total = 0;
    for (const char *k = kinds; *k; k++) {
        if (*k == 'i')
            total = total * 3 + va_arg(list, int);
        else if (*k == 'l')
            total = total * 5 + (double)va_arg(list, long);
        else if (*k == 'd')
            total = total * 7 + va_arg(list, double);
        else if (*k == 'p') {
            struct pair p = va_arg(list, struct pair);
            total += (double)p.a * p.b;
        } else {
            struct big b = va_arg(list, struct big);
            total += (double)(b.words[0] ^ b.words[4]);
        }
    }
    va_end(list);
    total += va_arg(copy, int);
    va_end(copy);
    return total;
}

int main(void)
{
    struct pair p = {6, 1.25};
    struct big b = {{1, 2, 3, 4, 5}};
    printf("%.6f\n", gather("idld", 1, 2.5, 3l, 4.5));
    printf("%.6f\n", gather("iiiiiiiiidddddddddd", 1, 2, 3, 4, 5, 6, 7, 8, 9, .1, .2, .3, .4, .5, .6,
                            .7, .8, .9, 1.0));
    printf("%.6f\n", gather("ipbdpb", 1, p, b, 8.5, p, b));
    printf("%d %5.2f %-8s| %+ld %#x %c %% %*d %s\n", -5, 3.14159, "left", 7l, 255u, 'z', 6, 42, "end");
    return 0;
}
