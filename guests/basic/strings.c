//! Drives the vectorised string functions over every length, alignment and page edge.
#include "guest.h"
#include <sys/mman.h>

int main(void)
{
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(page != MAP_FAILED && mprotect(page + 4096, 4096, PROT_NONE) == 0);
    uint64_t sum = MIX_START;
    char other[512] = {0};
    for (size_t length = 0; length < 300; length++) {
        char *text = page + 4096 - length - 1;
        for (size_t i = 0; i < length; i++)
            text[i] = (char)('a' + (i * 7 + length) % 26);
        text[length] = 0;
        sum = mix(sum, strlen(text));
        memcpy(other + length % 32, text, length + 1);
        sum = mix(sum, (uint64_t)strcmp(other + length % 32, text));
        char *at = strchr(text, 'q'), *last = strrchr(text, 'e');
        sum = mix(sum, at ? (uint64_t)(at - text) : 999);
        sum = mix(sum, last ? (uint64_t)(last - text) : 999);
        memmove(other + 3, other, 300);
        sum = mix_bytes(sum, other, 300);
        memset(other, (int)length, length);
        sum = mix(sum, (uint64_t)(memchr(text, 0, length + 1) == text + length));
        sum = mix(sum, strspn(text, "abcdefgh") * 1000 + strcspn(text, "xyz"));
        sum = mix(sum, strstr(text, "hov") ? (uint64_t)(strstr(text, "hov") - text) : 77);
    }
    printf("%016lx\n", sum);
    char words[] = "split,this;;up";
    for (char *save, *word = strtok_r(words, ",;", &save); word; word = strtok_r(NULL, ",;", &save))
        printf("<%s>", word);
    printf("\n%ld %lu %s\n", strtol("-0x7f", NULL, 16), strtoul("777", NULL, 8), strerror(ENOENT));
    return 0;
}
