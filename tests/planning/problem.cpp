#include "planning/problem.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace sectionflow::planning {
namespace {

/// a -> b -> c, a value each.
Problem chain_of_three() {
  Problem problem;
  problem.operations = {{"a", 1, 0, {}, {0}}, {"b", 2, 4, {0}, {1}}, {"c", 3, 0, {0, 1}, {2}}};
  problem.values = {{"x", 10, 0}, {"y", 20, 1}, {"z", 30, 2}};
  problem.order = {{0, 2}};
  return problem;
}

std::string refusal_of(const Problem& problem) {
  try {
    check_problem(problem);
  } catch (const ArgumentError& error) {
    return error.message();
  }
  return "";
}

TEST(CheckProblem, TakesWhatIsWhole) {
  EXPECT_EQ(refusal_of(chain_of_three()), "");
  EXPECT_EQ(refusal_of({}), "");
}

TEST(CheckProblem, RefusalsNameTheOperationOrValue) {
  const auto refused = [](auto change) {
    Problem problem = chain_of_three();
    change(problem);
    return refusal_of(problem);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::int64_t large = std::int64_t{1} << 52;
  const auto names = [](const std::string& text, const std::string& what) {
    EXPECT_NE(text.find(what), std::string::npos) << "'" << text << "' does not name " << what;
  };
  names(refused([](Problem& p) { p.operations[1].inputs = {3}; }), "operation 1 'b'");
  names(refused([](Problem& p) { p.operations[2].inputs = {1, 1}; }), "operation 2 'c'");
  names(refused([](Problem& p) { p.operations[0].inputs = {2}; }), "operation 0 'a'");
  names(refused([](Problem& p) { p.operations[0].outputs = {}; }), "value 0 'x'");
  names(refused([](Problem& p) { p.operations[0].outputs = {0, 1}; }), "value 1 'y'");
  names(refused([](Problem& p) { p.values[2].producer = 7; }), "operation 2 'c'");
  names(refused([](Problem& p) { p.values[1].bytes = -1; }), "value 1 'y'");
  names(refused([&](Problem& p) { p.values[0].bytes = p.values[1].bytes = large; }), "value 1 'y'");
  names(refused([&](Problem& p) { p.operations[1].seconds = nan; }), "operation 1 'b'");
  names(refused([](Problem& p) { p.operations[0].seconds = p.operations[2].seconds = 1e308; }), "operation 2 'c'");
  names(refused([](Problem& p) { p.operations[1].workspace = -4; }), "operation 1 'b'");
  names(refused([](Problem& p) { p.order = {{2, 1}}; }), "operation 2");
  names(refused([](Problem& p) { p.order = {{0, 3}}; }), "none of the 3 operations");
  names(refused([](Problem& p) { p.operations[1].seconds_again = -1; }), "operation 1 'b'");
  names(refused([](Problem& p) { p.ends = {{2, 1}}; }), "operation 2");
  names(refused([](Problem& p) { p.ends = {{0, 1}}; }), "operation 1 'b'");
  names(refused([](Problem& p) { p.operations[1].overwrites = {{1, 1}}; }), "operation 1 'b' writes value 1 over 1");
  names(refused([](Problem& p) { p.operations[1].overwrites = {{0, 2}}; }), "operation 1 'b' writes value 2 over 0");
  const auto other_size = [](Problem& p) {
    p.operations[1].overwrites = {{0, 1}};
    p.values[1].bytes = p.values[0].bytes + 1;
  };
  names(refused(other_size), "wanted the same size");
}

TEST(ReadersOfValues, AreAscending) {
  EXPECT_EQ(readers_of_values(chain_of_three()), (std::vector<std::vector<int>>{{1, 2}, {2}, {}}));
}

}  // namespace
}  // namespace sectionflow::planning
