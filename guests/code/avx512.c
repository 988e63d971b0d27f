//! AVX-512 with mask registers and the upper sixteen vectors.
//! flags: -mavx512f
//! needs: avx512f
#include "guest.h"
#include <immintrin.h>

int main(void)
{
    __m512i x = _mm512_set1_epi32(3), y = _mm512_set_epi32(16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1);
    uint64_t sum = MIX_START;
    for (int i = 0; i < 2000; i++) {
        __mmask16 mask = _mm512_cmpgt_epi32_mask(x, y);
        x = _mm512_mask_mullo_epi32(x, mask, y, _mm512_set1_epi32(i | 1));
        y = _mm512_add_epi32(_mm512_ror_epi32(y, 5), x);
        __asm__ volatile("vpaddd %0, %0, %%zmm20\n vpxord %%zmm20, %0, %0" : "+v"(x) : : "xmm20");
        sum = mix(sum, mask);
    }
    printf("%016lx %08x\n", sum, (unsigned)_mm512_reduce_add_epi32(_mm512_xor_epi32(x, y)));
    return 0;
}
