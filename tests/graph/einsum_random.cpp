// Random texts of einsum and random sizes, beside loops over all indices. Numbers are whole and small, so that f32 adds
// them without rounding: results are exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/einsum.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "op_case/case_values.h"
#include "tests/graph/einsum_reference.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/tolerance.h"

namespace sectionflow::einsum_case {
namespace {

using namespace testing_support;

/// A text and operands that fit it.
struct RandomEinsum {
  std::string text;
  std::vector<Operand> operands;
  std::string letters;                       ///< of all operands
  std::vector<std::vector<char>> of_axes{};  ///< for each operand the letter of each axis, '.' in "..."
};

class Maker {
 public:
  explicit Maker(std::uint32_t seed) : random_(seed) {}

  std::size_t below(std::size_t end) { return random_() % end; }
  bool one_in(std::size_t count) { return below(count) == 0; }

  RandomEinsum made() {
    RandomEinsum made;
    std::string pool = "abcdefXYZ";
    std::shuffle(pool.begin(), pool.end(), random_);
    pool.resize(1 + below(6));
    std::map<char, std::int64_t> sizes;
    for (const char letter : pool) sizes[letter] = one_in(8) ? 1 : 1 + static_cast<std::int64_t>(below(4));
    const std::size_t num_operands = 1 + below(one_in(3) ? 4 : 2);
    const bool has_ellipsis = one_in(3);
    std::vector<std::int64_t> of_ellipsis;
    for (std::size_t i = below(3) + 1; has_ellipsis && i > 0; --i) of_ellipsis.push_back(1 + below(3));
    bool any_ellipsis = false;
    for (std::size_t i = 0; i < num_operands; ++i) add_operand(made, pool, sizes, of_ellipsis, any_ellipsis);
    std::string result;
    for (const char letter : made.letters) {
      if (result.find(letter) == std::string::npos && !one_in(3)) result += letter;
    }
    std::shuffle(result.begin(), result.end(), random_);
    if (any_ellipsis) result.insert(below(result.size() + 1), "...");
    made.text += "->" + result;
    return made;
  }

 private:
  void add_operand(RandomEinsum& made, const std::string& pool, const std::map<char, std::int64_t>& sizes,
                   const std::vector<std::int64_t>& of_ellipsis, bool& any_ellipsis) {
    std::string term = pool;
    std::shuffle(term.begin(), term.end(), random_);
    term.resize(below(std::min<std::size_t>(term.size(), 4) + 1));
    if (!term.empty() && one_in(6)) term.insert(below(term.size() + 1), 1, term[below(term.size())]);
    std::vector<std::int64_t> dims;
    std::vector<char> of_axes;
    for (const char letter : term) {
      dims.push_back(sizes.at(letter));
      of_axes.push_back(letter);
    }
    made.letters += term;
    if (!of_ellipsis.empty() && !one_in(3)) {
      const auto at = static_cast<std::ptrdiff_t>(below(term.size() + 1));
      const std::size_t count = below(of_ellipsis.size() + 1);
      std::vector<std::int64_t> more(of_ellipsis.end() - static_cast<std::ptrdiff_t>(count), of_ellipsis.end());
      for (std::int64_t& size : more) size = one_in(4) ? 1 : size;
      dims.insert(dims.begin() + at, more.begin(), more.end());
      of_axes.insert(of_axes.begin() + at, more.size(), '.');
      term.insert(static_cast<std::size_t>(at), "...");
      any_ellipsis = true;
    }
    if (!made.operands.empty()) made.text += one_in(4) ? " , " : ",";
    made.text += term;
    Operand operand{Shape(dims), {}};
    const std::int64_t count = operand.shape.num_elements();
    for (std::int64_t i = 0; i < count; ++i) operand.values.push_back(static_cast<double>(below(7)) - 3);
    made.operands.push_back(std::move(operand));
    made.of_axes.push_back(std::move(of_axes));
  }

  std::mt19937 random_;
};

std::string text_of_case(const RandomEinsum& made) {
  std::string text = made.text;
  for (const Operand& operand : made.operands) text += " " + operand.shape.text();
  return text;
}

/// Placeholders of the operands, whose axes of these letters are unknown.
std::vector<Value> placeholders_of(Graph& graph, const RandomEinsum& made, const std::string& unknown,
                                   testing_support::Feeds& feeds) {
  std::vector<Value> values;
  for (std::size_t i = 0; i < made.operands.size(); ++i) {
    std::vector<std::int64_t> dims = made.operands[i].shape.dims();
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      if (unknown.find(made.of_axes[i][axis]) != std::string::npos) dims[axis] = kDynamic;
    }
    values.push_back(placeholder(graph, "x", Shape(dims)));
    feeds.emplace(values.back(), op_cases::tensor_of({Dtype::f32, made.operands[i].shape}, made.operands[i].values));
  }
  return values;
}

TEST(RandomEinsums, AndTheirGradientsAreTheSumsThatTheTextSays) {
  const std::uint32_t seed = seed_or(101);
  SCOPED_TRACE(text_of("SECTIONFLOW_TEST_SEED=", seed));
  Maker maker(seed);
  for (int i = 0; i < 600; ++i) {
    const RandomEinsum made = maker.made();
    SCOPED_TRACE(text_of_case(made));
    Graph graph;
    testing_support::Feeds feeds;
    const std::vector<Value> operands = placeholders_of(graph, made, "", feeds);
    const Value y = einsum(made.text, operands);
    Operand weights{y.shape(), {}};
    for (std::int64_t k = y.shape().num_elements(); k > 0; --k) {
      weights.values.push_back(static_cast<double>(maker.below(5)) - 2);
    }
    const Value r = constant(graph, op_cases::tensor_of({Dtype::f32, weights.shape}, weights.values));
    std::vector<Value> fetches = gradients(reduce_sum(y * r), operands);
    fetches.push_back(y);
    const std::vector<HostTensor> found = run_kernels(fetches, feeds);
    EXPECT_EQ(doubles_of(found.back()), einsum_in_double(made.text, made.operands));
    for (std::size_t k = 0; k < operands.size(); ++k) {
      EXPECT_EQ(doubles_of(found[k]), gradient_in_double(made.text, made.operands, weights.values, k)) << k;
    }
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(RandomEinsums, TakeAnIndexOfUnknownSize) {
  const std::uint32_t seed = seed_or(102);
  SCOPED_TRACE(text_of("SECTIONFLOW_TEST_SEED=", seed));
  Maker maker(seed);
  int checked = 0;
  for (int i = 0; i < 600; ++i) {
    const RandomEinsum made = maker.made();
    if (made.letters.empty()) continue;
    const char letter = made.letters[maker.below(made.letters.size())];
    const bool is_diagonal = std::ranges::any_of(
        made.of_axes, [&](const std::vector<char>& axes) { return std::ranges::count(axes, letter) > 1; });
    SCOPED_TRACE(text_of(text_of_case(made), " without ", letter));
    Graph graph;
    testing_support::Feeds feeds;
    const std::vector<Value> operands = placeholders_of(graph, made, std::string(1, letter), feeds);
    if (is_diagonal) {
      EXPECT_THROW(einsum(made.text, operands), ShapeError);
      continue;
    }
    const Value y = einsum(made.text, operands);
    EXPECT_EQ(doubles_of(run_kernels({y}, feeds)[0]), einsum_in_double(made.text, made.operands));
    ++checked;
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(checked, 300);
}

TEST(RandomEinsums, OfManyUnknownSizesAreRightOrRefused) {
  const std::uint32_t seed = seed_or(103);
  SCOPED_TRACE(text_of("SECTIONFLOW_TEST_SEED=", seed));
  Maker maker(seed);
  int refused = 0, checked = 0;
  for (int i = 0; i < 900; ++i) {
    const RandomEinsum made = maker.made();
    SCOPED_TRACE(text_of_case(made));
    std::string unknown = ".";
    for (const char letter : made.letters) {
      if (maker.one_in(2)) unknown += letter;
    }
    Graph graph;
    testing_support::Feeds feeds;
    const std::vector<Value> operands = placeholders_of(graph, made, unknown, feeds);
    const int before = graph.num_nodes();
    Value y;
    try {
      y = einsum(made.text, operands);
    } catch (const ShapeError&) {
      EXPECT_EQ(graph.num_nodes(), before);
      ++refused;
      continue;
    }
    // An axis of "..." that may be 1 and is not known to be is not repeated, which the feed shows.
    try {
      EXPECT_EQ(doubles_of(run_kernels({y}, feeds)[0]), einsum_in_double(made.text, made.operands));
      ++checked;
    } catch (const ShapeError&) {
      EXPECT_NE(made.text.find("..."), std::string::npos);
    }
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(checked, 300);
  EXPECT_LT(refused, 400);
}

}  // namespace
}  // namespace sectionflow::einsum_case
