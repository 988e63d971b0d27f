//! Virtual calls on objects of eight classes in unpredictable order.
#include "guest.h"
#include <memory>
#include <vector>

struct Shape { virtual ~Shape() = default; virtual uint64_t step(uint64_t x) const = 0; };
template <int N> struct Kind : Shape { uint64_t step(uint64_t x) const override { return x * (2 * N + 3) + N; } };

int main(int argc, char **argv)
{
    std::vector<std::unique_ptr<Shape>> shapes;
    uint64_t state = 3;
    for (int i = 0; i < 4096; i++)
        switch (draw(&state) % 8) {
        case 0: shapes.emplace_back(new Kind<0>); break;
        case 1: shapes.emplace_back(new Kind<1>); break;
        case 2: shapes.emplace_back(new Kind<2>); break;
        case 3: shapes.emplace_back(new Kind<3>); break;
        case 4: shapes.emplace_back(new Kind<4>); break;
        case 5: shapes.emplace_back(new Kind<5>); break;
        case 6: shapes.emplace_back(new Kind<6>); break;
        default: shapes.emplace_back(new Kind<7>);
        }
    uint64_t x = 1;
    int rounds = reduced(30000, argc, argv);
    for (int round = 0; round < rounds; round++)
        for (size_t i = round % 64; i < shapes.size(); i += 3)
            x = shapes[i]->step(x);
    printf("%016lx\n", x);
    return 0;
}
