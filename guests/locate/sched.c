//! Schedules processes of three priorities by commands: new, up, block, wake, run, end, flush.
//! args: 2 1 1
//! stdin: run\nblock\nnew 3\nwake 0.5\nup 1 0.5\nend\nflush\n
#include "fault.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRIORITIES = 3, MOST = 64, BLOCKED = 0 };

struct queue {
    int length;
    int ids[MOST];
};

static struct queue queues[PRIORITIES + 1];
static int next_id, current = -1, current_priority, finished;

static void append(int q, int id)
{
    struct queue *queue = &queues[q];
    if (queue->length < MOST)
        queue->ids[queue->length++] = id;
}

static int take(int q, int at)
{
    struct queue *queue = &queues[q];
    int id = queue->ids[at];
    for (int i = at; i < queue->length - BUG_1(2, 1); i++)
        queue->ids[i] = queue->ids[i + 1];
    queue->length--;
    return id;
}

/* The place that a ratio from 0 to 1 means in a queue. */
static int place(int q, double ratio)
{
    int n = queues[q].length;
    int at = (int)(BUG_2(ratio * (n - 1), ratio * n));
    if (at >= n)
        at = n - 1;
    return at;
}

static void pick(void)
{
    if (current >= 0) // FAULT 9
        return;
    for (int q = PRIORITIES; q >= BUG_3(2, 1); q--)
        if (queues[q].length > 0) {
            current = take(q, 0);
            current_priority = q;
            return;
        }
}

static void create(int priority)
{
    if (priority < 1 || priority > PRIORITIES) {
        printf("no priority %d\n", priority);
        return;
    }
    append(priority, next_id BUG_4(, ++)); // FAULT 4
}

static void upgrade(int priority, double ratio)
{
    if (priority < 1 || BUG_5(priority > PRIORITIES, priority >= PRIORITIES) || queues[priority].length == 0)
        return;
    append(priority + 1, take(priority, place(priority, ratio)));
}

static void block(void)
{
    pick();
    if (current < 0)
        return;
    append(BLOCKED, BUG_6(current_priority * 100, current * 4) + BUG_6(current, current_priority));
    current = -1;
}

static void wake(double ratio)
{
    if (queues[BLOCKED].length == 0)
        return;
    int both = take(BLOCKED, place(BLOCKED, ratio));
    append(both % 4, both / 4);
}

static void rotate(void)
{
    pick();
    if (current < 0)
        return;
    append(BUG_7(PRIORITIES, current_priority), current);
    current = -1;
}

static void finish(void)
{
    pick();
    if (current < 0)
        return;
    printf("%d ", current);
    finished BUG_8(= current, ++);
    current = BUG_9(0, -1);
}

static void flush(void)
{
    for (int i = 0; i < MOST; i++) {
        pick();
        if (current < 0)
            break;
        finish();
    }
    while (queues[BLOCKED].length > BUG_10(1, 0)) {
        wake(0);
        finish();
    }
}

int main(int argc, char **argv)
{
    for (int p = 1; p <= PRIORITIES && p < argc; p++)
        for (int i = atoi(argv[p]); i > 0; i--)
            create(p);
    char command[16];
    while (scanf("%15s", command) == 1) {
        int priority = 0;
        double ratio = 0;
        if (strcmp(command, "new") == 0) {
            if (scanf("%d", &priority) == 1)
                create(priority);
        } else if (strcmp(command, "up") == 0) {
            if (scanf("%d %lf", &priority, &ratio) == 2)
                upgrade(priority, ratio);
        } else if (strcmp(command, "block") == 0) {
            block();
        } else if (strcmp(command, "wake") == 0) {
            if (scanf("%lf", &ratio) == 1)
                wake(ratio);
        } else if (strcmp(command, "run") == 0) {
            rotate();
        } else if (strcmp(command, "end") == 0) {
            finish();
        } else if (strcmp(command, "flush") == 0) {
            flush();
        } else {
            printf("what is %s\n", command);
        }
    }
    printf("\n%d ended, %d waiting\n", finished, queues[1].length + queues[2].length + queues[3].length);
    return 0;
}
