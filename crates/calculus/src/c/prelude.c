// What translated programs of the core calculus stand on. One unit of memory is a cell, which has room for a number
// or a pointer.
#include <setjmp.h>
#include <stdlib.h>

typedef long cell;

// A program goes on for as many operations on memory as it was given, and is then left. So one that goes wrong stops
// right behind its error, as the calculus does, and what it broke is not used.
static long left;
static jmp_buf out;

static void tick(void) {
  if (left-- == 0) longjmp(out, 1);
}

// The calculus is strict: it is an error to read junk. A compiled program may copy it, as long as it decides
// nothing. So here each value that is read decides something.
static long zeros;

#define READ(p) ({ tick(); cell v_ = *(cell *)(p); if (v_ == 0) zeros++; v_; })
#define WRITE(p, v) ({ tick(); *(cell *)(p) = (v); })
#define MALLOC(n) ({ tick(); (cell)malloc(sizeof(cell) * (n)); })
#define FREE(p) ({ tick(); free((void *)(p)); (cell)0; })
#define SHIFT(p, n) ((cell)(p) + (cell)sizeof(cell) * (n))
#define APPLY(f, v) (((cell (*)(cell))(f))(v))
