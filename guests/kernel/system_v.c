//! System V shared memory, semaphores and message queues, made and removed.
#include "guest.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

struct message { long type; char text[16]; };

int main(void)
{
    int segment = shmget(IPC_PRIVATE, 8192, 0600), queue = msgget(IPC_PRIVATE, 0600), set = semget(IPC_PRIVATE, 2, 0600);
    must(segment >= 0 && queue >= 0 && set >= 0);
    char *one = shmat(segment, NULL, 0), *two = shmat(segment, NULL, SHM_RDONLY);
    must(one != (void *)-1 && two != (void *)-1 && one != two);
    strcpy(one + 5000, "attached twice");
    struct shmid_ds about;
    must(shmctl(segment, IPC_STAT, &about) == 0);
    printf("%s %zu %lu\n", two + 5000, about.shm_segsz, (unsigned long)about.shm_nattch);
    must(shmdt(one) == 0 && shmdt(two) == 0 && shmctl(segment, IPC_RMID, NULL) == 0);
    struct message first = {2, "second type"}, second = {1, "first type"}, got;
    must(msgsnd(queue, &first, 12, 0) == 0 && msgsnd(queue, &second, 11, 0) == 0);
    ssize_t length = msgrcv(queue, &got, sizeof got.text, 1, 0);
    printf("%zd %s\n", length, got.text);
    must(msgrcv(queue, &got, sizeof got.text, 7, IPC_NOWAIT) == -1 && errno == ENOMSG);
    must(msgctl(queue, IPC_RMID, NULL) == 0);
    struct sembuf up = {0, 3, 0}, down = {0, -5, IPC_NOWAIT};
    must(semop(set, &up, 1) == 0 && semop(set, &down, 1) == -1 && errno == EAGAIN);
    printf("%d\n", semctl(set, 0, GETVAL));
    must(semctl(set, 0, IPC_RMID) == 0);
    return 0;
}
