//! Strings hashed into a chained table, looked up and compared.
#include "guest.h"

struct entry { struct entry *next; char key[24]; unsigned count; };
enum { BUCKETS = 1 << 16 };
static struct entry *buckets[BUCKETS];

int main(int argc, char **argv)
{
    uint64_t state = 77, sum = 0;
    int count = reduced(2000000, argc, argv);
    for (int i = 0; i < count; i++) {
        char key[24];
        uint64_t number = draw(&state) % 200000;
        int length = 0;
        do
            key[length++] = (char)('a' + number % 26);
        while (number /= 26);
        memcpy(key + length, "-key", 5);
        uint32_t hash = 5381;
        for (const char *c = key; *c; c++)
            hash = hash * 33 ^ (unsigned char)*c;
        struct entry **slot = &buckets[hash % BUCKETS];
        while (*slot && strcmp((*slot)->key, key))
            slot = &(*slot)->next;
        if (!*slot) {
            *slot = calloc(1, sizeof **slot);
            strcpy((*slot)->key, key);
        }
        sum += ++(*slot)->count;
    }
    printf("%lu\n", sum);
    return 0;
}
