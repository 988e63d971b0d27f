//! Objects in namespaces, with constructors and tagged names, and locals across an exception.
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace shop {
std::map<std::string, int> stock;
int sold[4] = {1, 2, 3, 4};

struct Item {
    static int count;
    std::string name;
    explicit Item(std::string n) : name(n) { count++; }
    ~Item() { count--; }
};
int Item::count;
} // namespace shop

std::vector<int> numbers = {5, 6, 7};
std::string greeting = "a greeting that is longer than the short form";

__attribute__((noinline)) static int work(int n)
{
    char text[32];
    int values[6] = {1, 2, 3};
    std::string s = "x";
    try {
        if (n > 2)
            throw std::runtime_error("too many");
        snprintf(text, sizeof text, "n=%d", n);
        s += text;
    } catch (std::exception &e) {
        s += e.what();
        values[3] = n;
    }
    printf("%s %d %d\n", s.c_str(), values[2] + values[3], (int)s.size());
    return values[3];
}

int main()
{
    shop::stock["a"] = 3;
    shop::stock["b"]++;
    shop::Item i("one");
    {
        shop::Item j("two");
        printf("%d\n", shop::Item::count);
    }
    for (auto &p : shop::stock)
        printf("%s %d\n", p.first.c_str(), p.second);
    for (int n : numbers)
        printf("%d\n", n + shop::sold[1]);
    printf("%s %d\n", greeting.c_str(), work(1) + work(4));
    return 0;
}
