//! AVX2 and FMA: 256-bit halves survive calls, gathers read through indices.
//! flags: -mavx2 -mfma
//! needs: avx2 fma
#include "guest.h"
#include <immintrin.h>

static __attribute__((noinline)) __m256i rotate(__m256i x, int i)
{
    return _mm256_permutevar8x32_epi32(x, _mm256_set1_epi32(i & 7));
}

int main(void)
{
    static int table[256];
    for (int i = 0; i < 256; i++)
        table[i] = i * i - 7 * i;
    __m256i x = _mm256_set_epi32(8, 7, 6, 5, 4, 3, 2, 1), y = x;
    __m256d f = _mm256_set_pd(1.1, 2.2, 3.3, 4.4);
    uint64_t sum = MIX_START;
    for (int i = 0; i < 2000; i++) {
        __m256i index = _mm256_and_si256(_mm256_add_epi32(x, _mm256_set1_epi32(i)), _mm256_set1_epi32(255));
        y = _mm256_xor_si256(y, _mm256_i32gather_epi32(table, index, 4));
        x = _mm256_add_epi32(_mm256_mullo_epi32(x, _mm256_set1_epi32(1664525)), rotate(y, i));
        f = _mm256_fmadd_pd(f, _mm256_set1_pd(0.999), _mm256_cvtepi32_pd(_mm256_castsi256_si128(y)));
        sum = mix(sum, (uint64_t)(unsigned)_mm256_movemask_epi8(_mm256_cmpgt_epi8(x, y)));
        if (i % 100 == 0)
            _mm256_zeroupper();
    }
    uint64_t out[4];
    _mm256_storeu_si256((__m256i *)out, _mm256_xor_si256(x, _mm256_castpd_si256(f)));
    printf("%016lx %016lx %016lx %016lx %016lx\n", sum, out[0], out[1], out[2], out[3]);
    return 0;
}
