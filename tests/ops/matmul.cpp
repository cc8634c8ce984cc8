#include "graph/ops/matmul.h"

#include <cmath>
#include <string>

#include "tests/support/op_case.h"

namespace sectionflow::testing_support {
namespace {

struct Sizes {
  std::int64_t rows, inner, columns;
};

OpCase to_case(const Sizes& s, bool transpose_a, bool transpose_b) {
  const std::string transposed = std::string(transpose_a ? "_at" : "") + (transpose_b ? "_bt" : "");
  return {.name = std::to_string(s.rows) + "x" + std::to_string(s.inner) + "x" + std::to_string(s.columns) + transposed,
          .inputs = {input(transpose_a ? Shape{s.inner, s.rows} : Shape{s.rows, s.inner}),
                     parameter(transpose_b ? Shape{s.columns, s.inner} : Shape{s.inner, s.columns})},
          .build =
              [=](Graph&, const std::vector<Value>& in) {
                return std::vector{matmul(in[0], in[1], {.transpose_a = transpose_a, .transpose_b = transpose_b})};
              },
          .reference =
              [=](const std::vector<Doubles>& in) {
                Doubles y(static_cast<std::size_t>(s.rows * s.columns));
                for (std::int64_t i = 0; i < s.rows; ++i)
                  for (std::int64_t k = 0; k < s.inner; ++k)
                    for (std::int64_t j = 0; j < s.columns; ++j) {
                      const double a = in[0][transpose_a ? k * s.rows + i : i * s.inner + k];
                      const double b = in[1][transpose_b ? j * s.inner + k : k * s.columns + j];
                      y[i * s.columns + j] += a * b;
                    }
                return std::vector<Doubles>{y};
              },
          .tolerance = {.relative = 4, .absolute = static_cast<double>(s.inner) / 2 + 4},
          .dynamic_batch = s.rows == 250 && !transpose_a};
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const Sizes& sizes :
       {Sizes{1, 1, 1}, {7, 13, 5}, {1, 100, 100}, {64, 64, 10}, {33, 1, 17}, {250, 300, 10}, {100, 257, 64}}) {
    for (bool transpose_a : {false, true})
      for (bool transpose_b : {false, true}) all.push_back(to_case(sizes, transpose_a, transpose_b));
  }
  all.push_back(to_case({150, 40, 800}, false, false));  // b is reordered first
  for (const Sizes& empty : {Sizes{0, 4, 3}, {4, 0, 3}, {4, 3, 0}}) all.push_back(to_case(empty, false, false));
  return all;
}

class MatmulCases : public testing::TestWithParam<OpCase> {};
TEST_P(MatmulCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, MatmulCases, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace sectionflow::testing_support
