//! A device is freed while the state still points to it, and its memory becomes somebody else's.
//! flags: -fno-inline -fno-builtin
//! signal: SIGSEGV
#include "guest.h"

struct page { int width, height; };
struct device { struct page *page; int copies; };

static struct page a4 = { 210, 297 };
static struct device *current;

static struct device *open_device(void)
{
    struct device *device = malloc(sizeof *device);
    device->page = &a4;
    device->copies = 1;
    return device;
}

static void close_device(struct device *device)
{
    device->copies--;
    if (device->copies == 0) // MARK: predicate
        free(device); // MARK: free
}

static char *keep(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    strcpy(copy, text); // MARK: reuse
    return copy;
}

int main(void)
{
    current = open_device(); // MARK: pointer
    close_device(current); // MARK: cause
    char *title = keep("drawing 12345");
    int width = current->page->width; // MARK: fault
    printf("%s: %d\n", title, width);
    return 0;
}
