//! System calls that are led to memory by pointers in memory: too far, or to what is gone. Which calls find what is said
//! where they are.
#include "guest.h"
#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

static char global[12];
static char text[100];
static int file, null, pair[2], ends[2], named;
static struct sockaddr_un address = {AF_UNIX, "lists.socket"};
enum { named_by = offsetof(struct sockaddr_un, sun_path) + sizeof "lists.socket" };

// A block for so much, or for less, with something behind it that nobody misses.
static size_t room;
static void *fresh(size_t size)
{
    void *block = malloc(room ? room : size);
    memset(block, 1, room ? room : size);
    if (room)
        must(malloc(300));
    return block;
}

__attribute__((noinline)) static void through_vectors(void)
{
    char *a = fresh(40), *b = fresh(40);
    struct iovec list[2] = {{text, 10}, {a, 40}};
    must(readv(file, list, 2) == 50); // MARK: heap_overflow
    must(preadv(file, list, 2, 3) == 50); // MARK: heap_overflow
    must(preadv2(file, list, 2, 3, 0) == 50); // MARK: heap_overflow
    must(writev(null, list, 2) == 50); // MARK: heap_overflow
    must(pwritev(null, list, 2, 0) == 50); // MARK: heap_overflow
    must(pwritev2(null, list, 2, 0, 0) == 50); // MARK: heap_overflow
    must(vmsplice(ends[1], list, 2, 0) == 50); // MARK: heap_overflow
    must(read(ends[0], text, 100) == 50);
    struct iovec same[1] = {{b, 40}}, from[1] = {{text, 40}};
    must(process_vm_readv(getpid(), same, 1, from, 1, 0) == 40); // MARK: heap_overflow

    // What was not asked for was not touched.
    list[1].iov_len = 1000;
    must(lseek(file, 85, SEEK_SET) == 85 && readv(file, list, 2) == 15);
    must(readv(-1, list, 2) == -1);
    free(a);
    free(b);
}

__attribute__((noinline)) static void through_messages(void)
{
    char *data = fresh(50), *name = fresh(110), *control = fresh(CMSG_SPACE(sizeof(int)));
    struct iovec list = {data, 50};
    struct msghdr m = {.msg_iov = &list, .msg_iovlen = 1};
    must(sendmsg(pair[0], &m, 0) == 50); // MARK: heap_overflow
    must(recvmsg(pair[1], &m, 0) == 50); // MARK: heap_overflow
    must(send(pair[0], text, 5, 0) == 5 && recvmsg(pair[1], &m, 0) == 5);
    struct mmsghdr many[2] = {{m, 0}, {m, 0}};
    must(sendmmsg(pair[0], many, 2, 0) == 2); // MARK: heap_overflow
    must(recvmmsg(pair[1], many, 2, 0, NULL) == 2); // MARK: heap_overflow

    list = (struct iovec){text, 5};
    char *to = malloc(named_by);
    memcpy(to, &address, named_by);
    if (room)
        to = realloc(to, room);
    m.msg_name = to;
    m.msg_namelen = named_by;
    must(sendmsg(named, &m, 0) == 5); // MARK: heap_overflow
    m.msg_name = name;
    m.msg_namelen = 110;
    must(recvmsg(named, &m, 0) == 5); // MARK: heap_overflow
    free(to);

    struct cmsghdr head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    char *sent = malloc(100);
    memcpy(sent, &head, sizeof head);
    memcpy(sent + sizeof head, &file, sizeof file);
    m = (struct msghdr){.msg_iov = &list, .msg_iovlen = 1, .msg_control = sent, .msg_controllen = head.cmsg_len};
    must(sendmsg(pair[0], &m, 0) == 5);
    m.msg_control = control;
    m.msg_controllen = CMSG_SPACE(sizeof(int));
    must(recvmsg(pair[1], &m, 0) == 5); // MARK: heap_overflow
    if (room) {
        sent = realloc(sent, 18);
        m.msg_control = sent;
    }
    m.msg_controllen = head.cmsg_len;
    must(sendmsg(pair[0], &m, 0) == 5); // MARK: heap_overflow
    must(recv(pair[1], text, 5, 0) == 5);
    free(data);
    free(name);
    free(control);
    free(sent);
}

__attribute__((noinline)) static void stale(void)
{
    char *gone = malloc(40);
    struct iovec *list = malloc(40 * sizeof *list);
    list[20] = (struct iovec){gone, 40};
    struct msghdr *m = malloc(1000);
    memset(m, 0, 1000);
    m[5].msg_iov = list + 20;
    m[5].msg_iovlen = 1;
    struct msghdr copy = m[5];
    if (room)
        free(gone);
    must(writev(null, list + 20, 1) == 40); // MARK: dangling_deref
    must(readv(file, list + 20, 1) == 40); // MARK: dangling_deref
    list[20].iov_base = text;
    if (room)
        free(list);
    must(writev(null, list + 20, 1) == 40); // MARK: dangling_deref
    must(sendmsg(pair[0], &copy, 0) == 40); // MARK: dangling_deref
    if (room)
        free(m);
    must(sendmsg(pair[0], m + 5, 0) == 40); // MARK: dangling_deref
    must(recv(pair[1], text, 40, 0) == 40 && recv(pair[1], text, 40, 0) == 40);
    if (!room) {
        free(gone);
        free(list);
        free(m);
    }
}

__attribute__((noinline)) static void elsewhere(void)
{
    char local[12] = "on the stack";
    int len = room ? 13 : 12;
    struct iovec list[2] = {{local, 12}, {global, 12}};
    list[0].iov_len = len;
    must(writev(null, list, 2) == len + 12); // MARK: stack_overflow
    list[0].iov_len = 12;
    list[1].iov_len = len;
    must(writev(null, list, 2) == len + 12); // MARK: global_overflow
}

int main(int argc, char **argv)
{
    (void)argv;
    file = open("lists.bin", O_RDWR | O_CREAT | O_TRUNC, 0600);
    null = open("/dev/null", O_WRONLY);
    unlink(address.sun_path);
    named = socket(AF_UNIX, SOCK_DGRAM, 0);
    must(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 && pipe(ends) == 0);
    must(bind(named, (struct sockaddr *)&address, named_by) == 0);
    must(write(file, text, 100) == 100 && lseek(file, 0, SEEK_SET) == 0);
    room = argc > 1 ? 0 : 10;
    through_vectors();
    through_messages();
    must(lseek(file, 0, SEEK_SET) == 0);
    stale();
    elsewhere();
    unlink(address.sun_path);
    unlink("lists.bin");
    return 0;
}
