//! Virtual calls through single, multiple and virtual inheritance, and member pointers.
#include "guest.h"
#include <memory>
#include <vector>

struct Shape { virtual ~Shape() = default; virtual long area() const = 0; };
struct Named { virtual ~Named() = default; virtual char letter() const { return '?'; } };
struct Square : Shape, Named { long side; explicit Square(long s) : side(s) {} long area() const override { return side * side; } char letter() const override { return 's'; } };
struct Rect : virtual Shape, virtual Named { long w, h; Rect(long a, long b) : w(a), h(b) {} long area() const override { return w * h; } };
struct Tall : Rect { explicit Tall(long h) : Rect(1, h) {} char letter() const override { return 't'; } };

int main()
{
    std::vector<std::unique_ptr<Shape>> shapes;
    for (long i = 0; i < 3000; i++) {
        if (i % 3 == 0)
            shapes.emplace_back(new Square(i));
        else if (i % 3 == 1)
            shapes.emplace_back(new Rect(i, 2));
        else
            shapes.emplace_back(new Tall(i));
    }
    uint64_t sum = MIX_START;
    long (Shape::*measure)() const = &Shape::area;
    for (const auto &shape : shapes) {
        sum = mix(sum, static_cast<uint64_t>((shape.get()->*measure)()));
        if (auto *named = dynamic_cast<Named *>(shape.get()))
            sum = mix(sum, static_cast<uint64_t>(named->letter()));
    }
    printf("%016lx\n", sum);
    return 0;
}
