//! Mixes buffered, line-buffered and unbuffered streams over files and memory.
#include "guest.h"

int main(void)
{
    FILE *file = fopen("data.txt", "w+");
    must(file != NULL);
    for (int i = 0; i < 3000; i++)
        fprintf(file, "%d;", i * i);
    must(fseek(file, 100, SEEK_SET) == 0);
    char text[32];
    must(fgets(text, sizeof text, file) != NULL);
    printf("%s %ld\n", text, ftell(file));
    must(ungetc('!', file) == '!' && fgetc(file) == '!');
    must(fseek(file, -20, SEEK_END) == 0 && fread(text, 1, 20, file) == 20);
    printf("%.20s %d\n", text, fgetc(file));
    fclose(file);
    char *memory = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&memory, &size);
    fprintf(stream, "%s-%05d", "mem", 77);
    fclose(stream);
    int a, b;
    must(sscanf("12 0x1f rest", "%d %i %31s", &a, &b, text) == 3);
    printf("%s %zu %d %d %s\n", memory, size, a, b, text);
    free(memory);
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 0; i < 50; i++)
        printf("%d ", i);
    puts("");
    return 0;
}
