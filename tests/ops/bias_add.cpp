#include "graph/ops/bias_add.h"

#include <string>

#include "tests/support/op_case.h"

namespace sectionflow::testing_support {
namespace {

OpCase to_case(const std::string& name, const Shape& x) {
  const std::int64_t channels = x[-1];
  return {.name = name,
          .inputs = {input(x), parameter({channels})},
          .build = [](Graph&, const std::vector<Value>& in) { return std::vector{bias_add(in[0], in[1])}; },
          .reference =
              [channels](const std::vector<Doubles>& in) {
                Doubles y = in[0];
                for (std::size_t i = 0; i < y.size(); ++i) y[i] += in[1][i % static_cast<std::size_t>(channels)];
                return std::vector<Doubles>{y};
              },
          .tolerance = {.relative = 1, .absolute = 0},
          .dynamic_batch = x.rank() > 1,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (std::int64_t channels : {1, 3, 8, 10, 16, 17, 32, 33, 63, 64, 65, 100, 256, 300, 600}) {
    all.push_back(to_case("rows_77_channels_" + std::to_string(channels), {77, channels}));
  }
  all.push_back(to_case("vector", {5}));
  all.push_back(to_case("one_row", {1, 10}));
  all.push_back(to_case("images", {7, 9, 8, 24}));
  all.push_back(to_case("many_blocks", {7, 100, 100, 3}));
  all.push_back(to_case("no_rows", {0, 4, 3}));
  all.push_back(to_case("no_channels", {4, 0}));
  return all;
}

class BiasAddCases : public testing::TestWithParam<OpCase> {};
TEST_P(BiasAddCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, BiasAddCases, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace sectionflow::testing_support
