//! The threads of C++: async, futures, call_once, shared locks, thread-local objects, exceptions.
//! flags: -pthread
//! link: dynamic
#include "guest.h"
#include <condition_variable>
#include <future>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <vector>

static std::shared_mutex table_lock;
static std::vector<int> table;
static thread_local std::vector<int> own;
static std::once_flag once;
static int made;

static long square_sum(int from, int to)
{
    std::call_once(once, [] { made++; });
    long sum = 0;
    for (int i = from; i < to; i++) {
        sum += long(i) * i;
        own.push_back(i);
        if (i % 50 == 0) {
            std::unique_lock<std::shared_mutex> hold(table_lock);
            table.push_back(i);
        } else {
            std::shared_lock<std::shared_mutex> hold(table_lock);
            must(table.size() < 100000);
        }
    }
    must(int(own.size()) == to - from);
    return sum;
}

int main()
{
    std::vector<std::future<long>> parts;
    for (int i = 0; i < 6; i++)
        parts.push_back(std::async(std::launch::async, square_sum, i * 100, i * 100 + 100));
    long sum = 0;
    for (auto &part : parts)
        sum += part.get();
    auto failing = std::async(std::launch::async, []() -> int { throw std::runtime_error("no"); });
    try {
        failing.get();
    } catch (const std::runtime_error &error) {
        printf("%s\n", error.what());
    }
    std::mutex lock;
    std::condition_variable changed;
    int stage = 0;
    std::thread other([&] {
        std::unique_lock<std::mutex> hold(lock);
        changed.wait(hold, [&] { return stage == 1; });
        stage = 2;
        changed.notify_all();
    });
    {
        std::unique_lock<std::mutex> hold(lock);
        stage = 1;
        changed.notify_all();
        changed.wait(hold, [&] { return stage == 2; });
    }
    other.join();
    printf("%ld %d %zu\n", sum, made, table.size());
    return 0;
}
