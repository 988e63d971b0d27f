//! A child writes into a System V segment that its parent attaches again at another place.
#include "guest.h"
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/wait.h>

int main(void)
{
    int segment = shmget(IPC_PRIVATE, 10000, 0600);
    must(segment >= 0);
    int *first = shmat(segment, NULL, 0);
    must(first != (void *)-1);
    must(shmctl(segment, IPC_RMID, NULL) == 0);
    first[3] = 3;
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 2500; i++)
            first[i] += i;
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child && status == 0);
    int *second = shmat(segment, NULL, 0);
    must(second != (void *)-1 && second != first);
    second[4] += 1000;
    printf("%d %d %d\n", first[3], first[4], second[2499]);
    must(shmdt(first) == 0);
    printf("%016lx\n", mix_bytes(MIX_START, second, 10000));
    must(shmdt(second) == 0);
    return 0;
}
