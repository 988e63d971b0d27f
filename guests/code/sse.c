//! SSE to SSE4.2 integer and floating instructions with all their comparison results.
//! flags: -msse4.2
#include "guest.h"
#include <immintrin.h>

int main(void)
{
    uint64_t state = 3, sum = MIX_START;
    for (int i = 0; i < 2000; i++) {
        __m128i a = _mm_set_epi64x((long long)draw(&state), (long long)draw(&state));
        __m128i b = _mm_set_epi64x((long long)draw(&state), (long long)draw(&state));
        __m128i c = _mm_add_epi32(_mm_mullo_epi32(a, b), _mm_shuffle_epi8(a, b));
        c = _mm_xor_si128(c, _mm_max_epu16(a, _mm_srli_epi64(b, 7)));
        __m128d d = _mm_div_pd(_mm_cvtepi32_pd(a), _mm_sqrt_pd(_mm_cvtepi32_pd(_mm_abs_epi32(b))));
        __m128 f = _mm_rcp_ps(_mm_cvtepi32_ps(c));
        f = _mm_round_ps(_mm_mul_ps(f, _mm_set1_ps(1e9f)), _MM_FROUND_TO_NEG_INF);
        sum = mix(sum, (uint64_t)_mm_movemask_epi8(_mm_cmpgt_epi8(a, b)));
        sum = mix(sum, (uint64_t)_mm_movemask_pd(_mm_cmplt_pd(d, _mm_set1_pd(1.0))));
        sum = mix(sum, (uint64_t)_mm_movemask_ps(_mm_cmpge_ps(f, _mm_setzero_ps())));
        sum = mix_bytes(mix_bytes(sum, &c, 16), &d, 16);
        sum = mix(sum, (uint64_t)_mm_cmpistri(a, b, 0x0c) + _mm_crc32_u64(sum, (uint64_t)i));
    }
    printf("%016lx %08x\n", sum, _mm_getcsr() & 0xffc0);
    return 0;
}
