//! What gdb shows of C++: containers through the library's pretty printers, exceptions, a signal, variables of
//! the thread.
#include "guest.h"
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Book {
    std::string title;
    int pages;
    virtual ~Book() = default;
    virtual int weight() const { return pages * 5; }
};

struct Atlas : Book {
    int maps = 7;
    int weight() const override { return Book::weight() + 2000; }
};

static thread_local int visits = 3;
static volatile int signals;

static void on_signal(int)
{
    signals++;
}

__attribute__((noinline)) static int find(const std::map<std::string, int> &places, const std::string &title)
{
    auto found = places.find(title);
    visits++; // MARK: visits
    if (found == places.end())
        throw std::out_of_range(title); // MARK: throw
    return found->second; // MARK: found
}

int main()
{
    std::vector<int> sizes = { 3, 1, 4, 1, 5 };
    std::map<std::string, int> places = { { "one", 1 }, { "two", 2 } };
    std::string name = "a name that is too long for the short form";
    auto atlas = std::make_unique<Atlas>();
    atlas->title = "world";
    atlas->pages = 300;
    std::unique_ptr<Book> book = std::move(atlas);
    signal(SIGUSR1, on_signal); // MARK: filled
    int sum = find(places, "one") + book->weight(); // MARK: weight
    raise(SIGUSR1); // MARK: raise
    try {
        sum += find(places, "three"); // MARK: missing
    } catch (const std::out_of_range &error) {
        name = error.what(); // MARK: caught
        sum += 10;
    }
    errno = 0;
    close(-1);
    int number = errno; // MARK: errno
    printf("%d %s %d %d %d\n", sum, name.c_str(), visits, signals, number == EBADF);
    return sum == 3511 && sizes.size() == 5 ? 0 : 1;
}
