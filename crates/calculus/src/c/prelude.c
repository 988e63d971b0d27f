// What translated programs of the core calculus stand on. One unit of memory is a cell, which has room for a number
// or a pointer.
#include <setjmp.h>
#include <stdlib.h>

typedef long cell;

// A program is left behind as many operations on memory as it was given; 0 is no limit. So one that goes wrong stops
// right behind its error, as the calculus does before it, and what it broke is not used.
static long left;
static jmp_buf out;

static void tick(void) {
  if (--left == 0) longjmp(out, 1);
}

// Places that were freed; the next program does not get them.
static int spares;

static void start(long operations, cell (*program)(void)) {
  left = operations;
  spares = 0;
  if (!setjmp(out)) program();
}

// The calculus is strict: it is an error to read junk. A compiled program may copy it, as long as it decides
// nothing. So here each value that is read decides something.
static long zeros;

#define READ(p) ({ cell v_ = *(cell *)(p); if (v_ == 0) zeros++; tick(); v_; })
#define WRITE(p, v) ({ cell v_ = (v); *(cell *)(p) = v_; tick(); v_; })
#define MALLOC(n) ({ cell v_ = (cell)malloc(sizeof(cell) * (n)); tick(); v_; })
#define FREE(p) ({ free((void *)(p)); tick(); (cell)0; })
#define SHIFT(p, n) ((cell)(p) + (cell)sizeof(cell) * (n))
#define APPLY(f, v) (((cell (*)(cell))(f))(v))
