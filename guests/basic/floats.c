//! Formats and parses floating point in every rounding mode.
//! flags: -frounding-math
//! libs: -lm
#include "guest.h"
#include <fenv.h>
#include <float.h>
#include <math.h>

int main(void)
{
    const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    volatile double third = 3.0, ten = 10.0;
    for (int i = 0; i < 4; i++) {
        must(fesetround(modes[i]) == 0);
        printf("%.17g %a %.3f %La\n", 1.0 / third, 1.0 / ten, 2.0005 * third,
               1.0L / (long double)third);
        printf("%ld %ld %d\n", lrint(2.5), lrint(-2.5), (int)rint(0.5));
    }
    must(fesetround(FE_TONEAREST) == 0);
    feclearexcept(FE_ALL_EXCEPT);
    volatile double zero = 0.0, huge = DBL_MAX;
    printf("%f %f %d\n", 1.0 / zero, huge * ten, !!isnan(zero / zero));
    printf("%d %d %d %d\n", !!fetestexcept(FE_DIVBYZERO), !!fetestexcept(FE_OVERFLOW),
           !!fetestexcept(FE_INVALID), !!fetestexcept(FE_UNDERFLOW));
    printf("%.15g %.15g %.15g\n", strtod("0x1.8p3", NULL), strtod("1e-310", NULL),
           strtod("123456789.123456789e-3", NULL));
    double sum = 0;
    for (int i = 1; i < 2000; i++)
        sum += sin(i) * exp(-i / 500.0) + pow(i, 0.3) / log(i + 1.0) + atan2(i, 7) + cbrt(i);
    printf("%.12f\n", sum);
    return 0;
}
