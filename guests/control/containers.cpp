//! Standard containers, strings and closures: many small inlined and out-of-line calls.
#include "guest.h"
#include <algorithm>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

int main()
{
    std::map<std::string, int> tree;
    std::unordered_map<uint64_t, std::string> table;
    uint64_t state = 5;
    for (int i = 0; i < 3000; i++) {
        std::ostringstream text;
        text << "k" << draw(&state) % 500;
        tree[text.str()] += i;
        table[draw(&state) % 700] += static_cast<char>('a' + i % 26);
    }
    uint64_t sum = MIX_START;
    for (const auto &entry : tree)
        sum = mix(mix_bytes(sum, entry.first.data(), entry.first.size()), static_cast<uint64_t>(entry.second));
    std::vector<uint64_t> keys;
    for (const auto &entry : table)
        keys.push_back(entry.first);
    std::sort(keys.begin(), keys.end(), [](uint64_t a, uint64_t b) { return a > b; });
    std::function<uint64_t(uint64_t)> fold = [&](uint64_t key) { return sum = mix_bytes(sum, table[key].data(), table[key].size()); };
    std::for_each(keys.begin(), keys.end(), fold);
    printf("%zu %zu %016lx\n", tree.size(), keys.size(), sum);
    return 0;
}
