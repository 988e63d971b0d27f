//! A threaded program forks: the child has the one thread that called, the parent goes on.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>
#include <sys/wait.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int stop, work_done, prepared, in_parent, in_child;

static void prepare(void) { pthread_mutex_lock(&lock), prepared++; }
static void parent(void) { in_parent++, pthread_mutex_unlock(&lock); }
static void child(void) { in_child++, pthread_mutex_unlock(&lock); }

static void *work(void *argument)
{
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&lock);
        work_done++;
        pthread_mutex_unlock(&lock);
    }
    return argument;
}

int main(void)
{
    pthread_t threads[3];
    must(pthread_atfork(prepare, parent, child) == 0);
    for (int i = 0; i < 3; i++)
        must(pthread_create(&threads[i], NULL, work, NULL) == 0);
    int sum = 0;
    for (int i = 0; i < 5; i++) {
        pid_t pid = fork();
        must(pid >= 0);
        if (pid == 0) {
            pthread_mutex_lock(&lock);
            _exit(10 + i + in_child);
        }
        int status;
        must(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
        sum += WEXITSTATUS(status);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 3; i++)
        must(pthread_join(threads[i], NULL) == 0);
    printf("%d %d %d %d\n", sum, prepared, in_parent, in_child);
    return 0;
}
