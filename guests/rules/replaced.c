//! A function compares short strings by words, also by those behind their ends, which were never written; what it says
//! does not depend on them. The program has another one that Memcheck is to call in its place.
#include "guest.h"

struct text {
    uint64_t length, words[2];
};

__attribute__((noipa)) int is_same(const struct text *a, const struct text *b)
{
    if (a->length != b->length)
        return 0;
    if (a->words[1] != b->words[1] && a->length > 8)
        return 0;
    uint64_t differ = a->words[0] ^ b->words[0];
    return differ << (64 - 8 * a->length) == 0;
}

int replacement(const struct text *a, const struct text *b) __asm__("_vgr00000ZU_NONE_is_same");
__attribute__((used)) int replacement(const struct text *a, const struct text *b)
{
    return a->length == b->length && memcmp(a->words, b->words, a->length) == 0;
}

static struct text *made_of(const char *text)
{
    struct text *out = malloc(sizeof(*out));
    must(out != NULL);
    out->length = strlen(text);
    memcpy(out->words, text, out->length);
    return out;
}

int main(void)
{
    struct text *one = made_of("abc"), *other = made_of("abc");
    if (is_same(one, other))
        puts("the same");
    free(one);
    free(other);
    return 0;
}
