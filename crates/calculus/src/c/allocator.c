// An allocator that survives every misuse, hands the last freed place out again first, and leaves nothing in it. It
// keeps numbers, not pointers, so that it does not hold on to blocks itself.
#define PLACES 4096
#define ROOM 32
static cell arena[PLACES][ROOM];
static short used[PLACES], spare[PLACES];
static int made;

void *malloc(size_t n) {
  if (n > sizeof(cell) * ROOM / 2) abort();
  int place = spares ? spare[--spares] : made++;
  if (place == PLACES) abort();
  used[place] = 1;
  return arena[place] + ROOM / 4;
}

void free(void *p) {
  for (int i = 0; i < made; i++) {
    if (p != arena[i] + ROOM / 4 || !used[i]) continue;
    used[i] = 0;
    spare[spares++] = i;
    for (int j = 0; j < ROOM; j++) arena[i][j] = 0;
  }
}
