// Faults that can be put into a program: with bit N of FAULTS set, BUG_N is its first argument, which is wrong, else
// its second. A fault is in the line of its BUG_N; lines that say `FAULT N` count as found too, where code is missing
// or a constant is used.
#ifndef FAULTS
#define FAULTS 0
#endif

#if FAULTS >> 1 & 1
#define BUG_1(wrong, right) wrong
#else
#define BUG_1(wrong, right) right
#endif

#if FAULTS >> 2 & 1
#define BUG_2(wrong, right) wrong
#else
#define BUG_2(wrong, right) right
#endif

#if FAULTS >> 3 & 1
#define BUG_3(wrong, right) wrong
#else
#define BUG_3(wrong, right) right
#endif

#if FAULTS >> 4 & 1
#define BUG_4(wrong, right) wrong
#else
#define BUG_4(wrong, right) right
#endif

#if FAULTS >> 5 & 1
#define BUG_5(wrong, right) wrong
#else
#define BUG_5(wrong, right) right
#endif

#if FAULTS >> 6 & 1
#define BUG_6(wrong, right) wrong
#else
#define BUG_6(wrong, right) right
#endif

#if FAULTS >> 7 & 1
#define BUG_7(wrong, right) wrong
#else
#define BUG_7(wrong, right) right
#endif

#if FAULTS >> 8 & 1
#define BUG_8(wrong, right) wrong
#else
#define BUG_8(wrong, right) right
#endif

#if FAULTS >> 9 & 1
#define BUG_9(wrong, right) wrong
#else
#define BUG_9(wrong, right) right
#endif

#if FAULTS >> 10 & 1
#define BUG_10(wrong, right) wrong
#else
#define BUG_10(wrong, right) right
#endif
