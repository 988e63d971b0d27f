//! Calls that move data through lists, also while another thread changes the list.
//! flags: -pthread
#include "guest.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

static int ends[2];
static char first[4], second[20], third[40];
static struct iovec list[2] = {{first, 4}, {second, 20}};

static void *wait_for_data(void *unused)
{
    (void)unused;
    // It waits with the list as it is.
    printf("%zd\n", readv(ends[0], list, 2));
    return NULL;
}

int main(void)
{
    must(pipe(ends) == 0);
    pthread_t other;
    must(pthread_create(&other, NULL, wait_for_data, NULL) == 0);
    struct timespec moment = {0, 20000000};
    nanosleep(&moment, NULL);
    list[1].iov_base = third;
    list[1].iov_len = 40;
    must(write(ends[1], "a list of two parts", 19) == 19);
    pthread_join(other, NULL);
    printf("[%.4s] [%s] [%s]\n", first, second, third);

    int pair[2];
    must(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    char one[] = "one", two[] = "two two", got[2][8] = {{0}};
    struct iovec out[2] = {{one, 3}, {two, 7}}, in[2] = {{got[0], 8}, {got[1], 8}};
    struct mmsghdr send[2] = {{{.msg_iov = out, .msg_iovlen = 1}, 0}, {{.msg_iov = out + 1, .msg_iovlen = 1}, 0}};
    struct mmsghdr receive[2] = {{{.msg_iov = in, .msg_iovlen = 1}, 0}, {{.msg_iov = in + 1, .msg_iovlen = 1}, 0}};
    must(sendmmsg(pair[0], send, 2, 0) == 2 && recvmmsg(pair[1], receive, 2, 0, NULL) == 2);
    printf("%s %s\n", got[0], got[1]);

    // A descriptor goes along.
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {{0}};
    struct msghdr message = {.msg_iov = out, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
    control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.head), &ends[0], sizeof(int));
    must(sendmsg(pair[0], &message, 0) == 10);
    memset(&control, 0, sizeof control);
    message.msg_iov = in;
    must(recvmsg(pair[1], &message, 0) == 10 && message.msg_controllen == CMSG_SPACE(sizeof(int)));
    printf("%.8s%.2s\n", got[0], got[1]);
    return 0;
}
