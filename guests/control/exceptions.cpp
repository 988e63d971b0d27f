//! Throws through frames with destructors, rethrows, and catches by base class.
#include "guest.h"
#include <stdexcept>
#include <string>

static int alive;
struct Guard {
    Guard() { alive++; }
    ~Guard() { alive--; }
};
struct Base { virtual ~Base() {} virtual int code() const { return 1; } };
struct Derived : Base { int value; explicit Derived(int v) : value(v) {} int code() const override { return value; } };

__attribute__((noinline)) static void deep(int depth, int kind)
{
    Guard guard;
    if (depth > 0) {
        deep(depth - 1, kind);
        return;
    }
    if (kind % 3 == 0)
        throw Derived(kind);
    if (kind % 3 == 1)
        throw std::runtime_error("kind " + std::to_string(kind));
    throw kind;
}

__attribute__((noinline)) static void through(int kind)
{
    Guard guard;
    try {
        deep(kind % 20, kind);
    } catch (const std::exception &) {
        throw;
    } catch (int value) {
        throw Derived(value * 2);
    }
}

int main()
{
    uint64_t sum = MIX_START;
    for (int i = 0; i < 300; i++) {
        try {
            through(i);
        } catch (const Base &base) {
            sum = mix(sum, static_cast<uint64_t>(base.code()));
        } catch (const std::exception &error) {
            sum = mix_bytes(sum, error.what(), strlen(error.what()));
        }
        must(alive == 0);
    }
    printf("%016lx\n", sum);
    try {
        std::string().at(3);
    } catch (const std::out_of_range &) {
        puts("out of range");
    }
    return 0;
}
