//! Sets locales, present and absent, and converts wide characters.
#include "guest.h"
#include <locale.h>
#include <wchar.h>
#include <wctype.h>

int main(void)
{
    printf("%s\n", setlocale(LC_ALL, NULL));
    printf("%s\n", setlocale(LC_ALL, "xx_XX.UTF-8") ? "found" : "absent");
    printf("%s\n", setlocale(LC_ALL, "C.UTF-8") ? "utf-8" : "no utf-8");
    wchar_t wide[32];
    size_t count = mbstowcs(wide, "gr\xc3\xbc\xc3\x9f \xe2\x82\xac", 32);
    printf("%zu %lc %x\n", count, towupper(wide[2]), (unsigned)wide[5]);
    struct lconv *conventions = localeconv();
    printf("[%s] [%s]\n", conventions->decimal_point, conventions->thousands_sep);
    return 0;
}
