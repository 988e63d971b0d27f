//! Adds up in shared memory of three kinds, through two views of each, printing as it goes.
#include "guest.h"
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

int main(void)
{
    enum { ROUNDS = 60 };
    int fd = memfd_create("sums", 0);
    must(fd >= 0 && ftruncate(fd, 8192) == 0);
    uint64_t *file = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const volatile uint64_t *upper = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096);
    uint64_t *none = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(file != MAP_FAILED && upper != MAP_FAILED && none != MAP_FAILED);
    uint64_t *again = mremap(none, 0, 4096, MREMAP_MAYMOVE);
    int segment = shmget(IPC_PRIVATE, 4096, 0600);
    must(again != MAP_FAILED && segment >= 0);
    uint64_t *attached = shmat(segment, NULL, 0);
    must(attached != (void *)-1 && shmctl(segment, IPC_RMID, NULL) == 0);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        file[512 + i % 7] += i;
        none[i % 5] += upper[i % 7] + again[(i + 1) % 5];
        attached[i % 3] += none[i % 5] ^ attached[(i + 1) % 3];
        if (i % 4 == 0) {
            uint64_t word = again[i % 5] + 1;
            must(pwrite(fd, &word, 8, (off_t)(4096 + 8 * (i % 7))) == 8);
        }
        printf("%lu %lx %lx %lx\n", i, upper[i % 7], again[i % 5], attached[i % 3]);
        fflush(stdout);
    }
    return 0;
}
