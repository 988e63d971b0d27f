//! Splits its input into tokens and names the kind of each.
//! stdin: while (x1 <= 0x1f) { y = "a\\"b"; } # note
#include "fault.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 40 };

static int pushed = -2, line = 1, errors, counts[6];

enum kind { KEYWORD, NAME, NUMBER, TEXT, OPERATOR, BAD };

static const char *const kinds[] = {"keyword", "name", "number", "text", "operator", "bad"};
static const char *const keywords[] = {"if", "else", "while", "for", "return", "and", "or", "not"};

static int next(void)
{
    int c = pushed;
    if (c != -2)
        pushed = -2;
    else
        c = getchar();
    return c;
}

static void push_back(int c)
{
    pushed = c;
}

static int is_keyword(const char *word)
{
    int n = (int)(sizeof keywords / sizeof *keywords);
    for (int i = 0; i < BUG_1(n - 1, n); i++)
        if (strcmp(word, keywords[i]) == 0)
            return 1;
    return 0;
}

static void put(enum kind kind, const char *word)
{
    counts[kind]++;
    if (kind == BAD)
        errors++;
    printf("%d %s %s\n", line, kinds[kind], word);
}

static int skip(void)
{
    int c = next();
    while (c == ' ' || c == '\t' || c == '\n' || c == '#') {
        if (c == '#')
            while (c != '\n' && c != EOF)
                c = next();
        if (c == '\n')
            line BUG_2(= 1, ++); // FAULT 2
        if (c == EOF)
            break;
        c = next();
    }
    return c;
}

static void name(int c)
{
    char word[LONGEST + 1];
    int n = 0;
    while (isalpha(c) || c == '_' BUG_3(, || isdigit(c))) {
        if (n < LONGEST)
            word[n++] = (char)c;
        c = next();
    }
    word[n] = 0;
    push_back(c);
    put(is_keyword(word) ? KEYWORD : NAME, word);
}

static void number(int c)
{
    char word[LONGEST + 1];
    int n = 0, points = 0, good = 1, hex = 0;
    word[n++] = (char)c;
    int d = next();
    if (c == '0' && (d == 'x' || d == 'X')) {
        hex = BUG_4(0, 1);
        word[n++] = (char)d;
        d = next();
    }
    while (isdigit(d) || (hex && isxdigit(d)) || d == '.') { // FAULT 4
        if (d == '.')
            points++;
        if (n < LONGEST)
            word[n++] = (char)d;
        d = next();
    }
    if (points > BUG_5(2, 1) || (hex && points > 0))
        good = 0;
    word[n] = 0;
    push_back(d);
    put(good ? NUMBER : BAD, word);
}

static void text(void)
{
    char word[LONGEST + 1];
    int n = 0, c = next();
    while (c != '"' && c != EOF && c != '\n') {
        if (c == '\\') // FAULT 6
            c = BUG_6(c, next()); // FAULT 6
        if (n < LONGEST)
            word[n++] = (char)c;
        c = next();
    }
    word[n] = 0;
    put(c == '"' ? TEXT : BAD, word);
    if (c == '\n')
        push_back(c);
}

static void operator(int c)
{
    char word[3] = {(char)c, 0, 0};
    int d = next();
    int pair = 0;
    if (d == '=')
        pair = c == '<' || c == '>' || c == '=' || BUG_7(c == '+', c == '!');
    else if (c == d)
        pair = c == '&' || c == '|';
    else if (c == '-')
        pair = BUG_8(d == '<', d == '>');
    if (pair)
        word[1] = (char)d;
    else
        push_back(d);
    put(strchr("+-*/%=<>!&|(){}[];,.?:", c) ? OPERATOR : BAD, word);
}

int main(void)
{
    int c;
    while ((c = skip()) != EOF) {
        if (isalpha(c) BUG_9(, || c == '_'))
            name(c);
        else if (isdigit(c))
            number(c);
        else if (c == '"')
            text();
        else
            operator(c); // FAULT 9
    }
    int total = 0;
    for (int i = 0; i <= BUG_10(BAD - 1, BAD); i++)
        total += counts[i];
    printf("%d tokens in %d lines, %d bad\n", total, line, errors);
    return 0;
}
