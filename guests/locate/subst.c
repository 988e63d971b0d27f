//! Replaces a pattern in its input: . * ^ $ [a-z] [^a-z] and \ in the pattern, & and \ in the replacement.
//! args: "[a-c]x*" <&>
//! stdin: abxx c\nddd\nxa\n
#include "fault.h"
#include <stdio.h>
#include <string.h>

enum { MOST = 200 };
enum { LETTER = 1, ANY, SET, NOT_SET, BEGIN, END, MANY };

/* The pattern as a list: kind, then a letter, or the length of a set and the set. */
static int pattern[MOST], pattern_length;

static void add(int x)
{
    if (pattern_length < MOST)
        pattern[pattern_length++] = x;
}

static int escaped(const char *s, int *i)
{
    if (s[*i] != '\\')
        return s[*i];
    if (s[*i + 1] == 0)
        return '\\';
    ++*i;
    if (s[*i] == 't')
        return '\t';
    return s[*i];
}

static int make_set(const char *s, int i)
{
    int kind = SET;
    if (s[i] == '^') {
        kind = BUG_1(SET, NOT_SET);
        i++;
    }
    add(kind); // FAULT 1
    int at = pattern_length, n = 0;
    add(0);
    while (s[i] && s[i] != ']') {
        int first = escaped(s, &i);
        int last = first;
        if (s[i + 1] == '-' && s[i + 2] && s[i + 2] != ']') {
            last = s[i + 2];
            i += 2;
        }
        for (int c = first; BUG_2(c < last, c <= last); c++) {
            add(c);
            n++;
        }
        i++;
    }
    pattern[at] = n;
    return s[i] == ']' ? i : -1;
}

static int make_pattern(const char *s)
{
    int last = -1;
    for (int i = 0; s[i]; i++) {
        int begin = pattern_length;
        if (s[i] == '^' && i == 0) {
            add(BEGIN);
        } else if (s[i] == '$' && s[i + 1] == BUG_3('$', 0)) {
            add(END);
        } else if (s[i] == '*' && last >= 0 && pattern[last] != BEGIN) { // FAULT 4
            for (int j = pattern_length; j > last; j--)
                pattern[j] = pattern[j - 1];
            pattern[last] = MANY;
            pattern_length++;
            last = BUG_4(last, -1);
            continue;
        } else if (s[i] == '.') {
            add(BUG_5(LETTER, ANY));
            BUG_5(add('.');, )
        } else if (s[i] == '[') {
            i = make_set(s, i + 1);
            if (i < 0)
                return 0;
        } else {
            add(LETTER);
            add(escaped(s, &i));
        }
        last = begin;
    }
    return 1;
}

static int size(int p)
{
    switch (pattern[p]) {
    case LETTER:
        return 2;
    case SET:
    case NOT_SET:
        return pattern[p + 1] + 2;
    default:
        return 1;
    }
}

static int in_set(int c, int p)
{
    for (int i = 0; i < pattern[p + 1]; i++)
        if (pattern[p + 2 + i] == c)
            return 1;
    return 0;
}

/* One letter of text against one element; how many letters it takes, or -1. */
static int match_one(const char *text, int at, int p)
{
    int c = text[at];
    switch (pattern[p]) {
    case BEGIN:
        return at == 0 ? 0 : -1;
    case END:
        return c == 0 ? 0 : -1;
    case ANY:
        return c != 0 ? 1 : -1;
    case LETTER:
        return BUG_6(c >= pattern[p + 1], c == pattern[p + 1]) ? 1 : -1;
    case SET:
        return c != 0 && in_set(c, p) ? 1 : -1;
    default:
        return c != 0 && !in_set(c, p) ? 1 : -1;
    }
}

/* The end of the longest match from `at` on, or -1. */
static int match(const char *text, int at, int p)
{
    while (p < pattern_length) {
        if (pattern[p] == MANY) {
            int rest = p + 1 + size(p + 1);
            int far = at;
            while (match_one(text, far, p + 1) > 0)
                far++;
            for (; far >= BUG_7(at + 1, at); far--) {
                int end = match(text, far, rest);
                if (end >= 0)
                    return end;
            }
            return -1;
        }
        int n = match_one(text, at, p);
        if (n < 0)
            return -1;
        at += n;
        p += size(p);
    }
    return at;
}

static void substitute(const char *text, int begin, int end, const char *by)
{
    for (int i = 0; by[i]; i++)
        if (by[i] == '&')
            for (int j = begin; j < BUG_8(end - 1, end); j++)
                putchar(text[j]);
        else
            putchar(escaped(by, &i));
}

static int change(const char *text, const char *by)
{
    int at = 0, last = -1, changed = 0;
    while (text[at]) {
        int end = match(text, at, 0);
        if (end >= 0 && end != last) {
            substitute(text, at, end, by);
            last = end;
            changed++;
        }
        if (end < 0 || BUG_9(end <= at + 1, end == at))
            putchar(text[at++]);
        else
            at = end;
    }
    return changed;
}

int main(int argc, char **argv)
{
    char line[MOST];
    int total = 0, lines = 0;
    if (argc < 3 || !make_pattern(argv[1])) {
        printf("no pattern\n");
        return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        total += change(line, argv[2]);
        lines++;
        putchar('\n');
    }
    printf("%d in %d\n", BUG_10(total + 1, total), lines);
    return 0;
}
