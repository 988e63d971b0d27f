//! LZ-style compression with a hash table of recent positions, and decompression again.
#include "guest.h"

enum { SIZE = 1 << 22, TABLE = 1 << 15 };
static unsigned char text[SIZE], packed[SIZE * 2], back[SIZE];
static int table[TABLE];
static size_t length_of_text;

static size_t pack(void)
{
    size_t at = 0, out = 0;
    memset(table, -1, sizeof table);
    while (at + 4 < length_of_text) {
        uint32_t word;
        memcpy(&word, text + at, 4);
        uint32_t slot = word * 2654435761u >> 17;
        int before = table[slot];
        table[slot] = (int)at;
        size_t length = 0;
        if (before >= 0 && at - (size_t)before < 65536)
            while (length < 255 && at + length < length_of_text && text[(size_t)before + length] == text[at + length])
                length++;
        if (length >= 4) {
            size_t distance = at - (size_t)before;
            packed[out++] = 1;
            packed[out++] = (unsigned char)length;
            packed[out++] = (unsigned char)distance;
            packed[out++] = (unsigned char)(distance >> 8);
            at += length;
        } else {
            packed[out++] = 0;
            packed[out++] = text[at++];
        }
    }
    return out;
}

static size_t unpack(size_t count)
{
    size_t out = 0;
    for (size_t at = 0; at < count;) {
        if (packed[at] == 0) {
            back[out++] = packed[at + 1];
            at += 2;
        } else {
            size_t length = packed[at + 1], distance = packed[at + 2] | (size_t)packed[at + 3] << 8;
            for (size_t i = 0; i < length; i++, out++)
                back[out] = back[out - distance];
            at += 4;
        }
    }
    return out;
}

int main(int argc, char **argv)
{
    uint64_t state = 9;
    length_of_text = (size_t)reduced(SIZE, argc, argv);
    for (size_t i = 0; i < length_of_text; i++)
        text[i] = (unsigned char)(i > 1000 && draw(&state) % 8 ? text[i - 1 - state % 7 * 100] : 'a' + state % 20);
    size_t size = 0, restored = 0;
    for (int round = 0; round < 30; round++) {
        size = pack();
        restored = unpack(size);
    }
    must(memcmp(text, back, restored) == 0);
    printf("%zu %zu\n", size, restored);
    return 0;
}
