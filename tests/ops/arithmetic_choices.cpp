#include <gtest/gtest.h>

#include <cmath>

#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "tests/support/broadcast_reference.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

template <class T>
void expect_equal_gives(const std::vector<T>& a, const std::vector<T>& b, const std::vector<bool>& wanted) {
  constexpr int kTimes = 41;  // vector body and scalar tail both see each pair
  HostTensor left(dtype_of<T>, {kTimes, static_cast<std::int64_t>(a.size())}), right = left.clone();
  HostTensor result(Dtype::boolean, left.shape());
  for (std::size_t i = 0; i < a.size() * kTimes; ++i) {
    left.values<T>()[i] = a[i % a.size()];
    right.values<T>()[i] = b[i % a.size()];
    result.values<bool>()[i] = wanted[i % a.size()];
  }
  Graph graph;
  const Value y = equal(constant(graph, std::move(left)), constant(graph, std::move(right)));
  EXPECT_TRUE(same_bits(run_kernels({y}, {})[0], result)) << dtype_name(dtype_of<T>);
}

TEST(Equal, ComparesEveryDtype) {
  expect_equal_gives<double>({1, 1}, {1, 1 + 0x1p-52}, {true, false});
  expect_equal_gives<std::int32_t>({1, -1, 5}, {1, 1, 5}, {true, false, true});
  expect_equal_gives<std::int64_t>({std::int64_t{1} << 32, 7}, {0, 7}, {false, true});
  expect_equal_gives<std::uint8_t>({255, 1}, {255, 0}, {true, false});
  expect_equal_gives<bool>({true, false, true}, {true, false, false}, {true, true, false});
}

TEST(Equal, ComparesFloatsAsIeee) {
  expect_equal_gives<float>({1, 0.0F, NAN, INFINITY, INFINITY}, {1, -0.0F, NAN, INFINITY, -INFINITY},
                            {true, true, false, true, false});
}

TEST(Equal, TakesEmptyTensorsAndScalars) {
  Graph graph;
  const Value none = fill(graph, {0}, 1), one = fill(graph, {}, 1);
  const auto results = run_kernels({equal(none, none), equal(one, one)}, {});
  EXPECT_EQ(results[0].type(), (TensorType{Dtype::boolean, {0}}));
  EXPECT_TRUE(results[1].item<bool>());
}

struct Comparison {
  const char* name;
  Value (*build)(Value, Value, Where);
  bool (*apply)(double, double);
};
const Comparison kComparisons[] = {
    {"equal", equal, [](double a, double b) { return a == b; }},
    {"not_equal", not_equal, [](double a, double b) { return a != b; }},
    {"less", less, [](double a, double b) { return a < b; }},
    {"less_equal", less_equal, [](double a, double b) { return a <= b; }},
    {"greater", greater, [](double a, double b) { return a > b; }},
    {"greater_equal", greater_equal, [](double a, double b) { return a >= b; }},
};

/// Made into a case where it runs: the numbers of all, made wherever the program starts, would take longer than a test.
struct ComparisonCase {
  std::string name;
  const Comparison* comparison;
  Dtype dtype;
  Shape a, b;
  friend void PrintTo(const ComparisonCase& each, std::ostream* stream) { *stream << each.name; }
};
std::vector<ComparisonCase> comparison_cases() {
  const std::pair<Shape, Shape> shapes[] = {{{}, {}},           {{7, 5}, {7, 5}}, {{3, 11}, {}},       {{1}, {3, 11}},
                                            {{6, 7}, {6, 1}},   {{6, 7}, {7}},    {{4, 1, 3}, {5, 1}}, {{0, 3}, {3}},
                                            {{151, 333}, {333}}};
  std::vector<ComparisonCase> all;
  for (const Comparison& op : kComparisons) {
    for (Dtype dtype : {Dtype::f32, Dtype::i32, Dtype::u8, Dtype::boolean}) {
      for (const auto& [a, b] : shapes)
        all.push_back({text_of(op.name, "_", dtype_name(dtype), "_", all.size()), &op, dtype, a, b});
    }
  }
  return all;
}

OpCase op_case_of(const ComparisonCase& each) {
  // Few different numbers, so that many are equal.
  const auto in = [&](const Shape& shape) {
    CaseInput drawn{.type = {each.dtype, shape}, .low = 0, .high = each.dtype == Dtype::boolean ? 1.0 : 4.0};
    for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
      drawn.values.push_back(static_cast<double>((i * 7 + shape.rank()) % static_cast<int>(drawn.high + 1)));
    }
    drawn.differentiable = false;
    return drawn;
  };
  OpCase made{.name = each.name, .inputs = {in(each.a), in(each.b)}, .build = {}, .reference = {}};
  made.build = [of = each.comparison](Graph&, const std::vector<Value>& in) {
    return std::vector{of->build(in[0], in[1], Where::here())};
  };
  made.reference = [each](const std::vector<Doubles>& in) {
    const Shape out = broadcast_shapes(each.a, each.b, "test");
    Doubles y;
    for (std::int64_t i = 0; i < out.num_elements(); ++i) {
      y.push_back(each.comparison->apply(in[0][source_index(i, out, each.a)], in[1][source_index(i, out, each.b)]));
    }
    return std::vector<Doubles>{y};
  };
  made.gradient_outputs = {}, made.same_bits_for_any_threads = true;
  return made;
}

class Comparisons : public testing::TestWithParam<ComparisonCase> {};
TEST_P(Comparisons, MatchTheReference) {
  check(op_case_of(GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Cases, Comparisons, testing::ValuesIn(comparison_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(ComparisonSigns, AreTheOperationsWithValuesAndNumbersOnEitherSide) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({4}, {1, 2, 3, NAN})), two = fill(graph, {4}, 2);
  const auto narrow = [](Value value) { return cast(value, Dtype::bf16); };
  const std::pair<std::vector<Value>, std::vector<bool>> all[] = {
      {{x < two, x<2.0F, 2.0F> x, narrow(x) < 2.0F, narrow(x) < narrow(two)}, {true, false, false, false}},
      {{x <= two, x <= 2.0F, 2.0F >= x, narrow(x) <= 2.0F}, {true, true, false, false}},
      {{x > two, x > 2.0F, 2.0F < x, 2.0F < narrow(x)}, {false, false, true, false}},
      {{x >= two, x >= 2.0F, 2.0F <= x, 2.0F <= narrow(x)}, {false, true, true, false}}};
  for (const auto& [values, wanted] : all) {
    HostTensor booleans(Dtype::boolean, {4});
    for (std::size_t i = 0; i < 4; ++i) booleans.values<bool>()[i] = wanted[i];
    for (const HostTensor& result : run_kernels(values, {})) EXPECT_TRUE(same_bits(result, booleans));
  }
}

TEST(ComparisonSigns, OfWhatCannotBeComparedLeaveNothingBehind) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3}, Dtype::u8);
  const int num_nodes = graph.num_nodes();
  EXPECT_THROW((void)(x < 2.0F), ArgumentError);
  EXPECT_THROW((void)(x >= placeholder(graph, "y", {4}, Dtype::u8)), ShapeError);
  EXPECT_EQ(graph.num_nodes(), num_nodes + 1) << "the placeholder alone";
}

struct Logical {
  const char* name;
  Value (*build)(Value, Value, Where);
  bool (*apply)(bool, bool);
};
const Logical kLogical[] = {
    {"logical_and", logical_and, [](bool a, bool b) { return a && b; }},
    {"logical_or", logical_or, [](bool a, bool b) { return a || b; }},
    {"logical_xor", logical_xor, [](bool a, bool b) { return a != b; }},
};

TEST(LogicalOps, CombineAndBroadcastBooleans) {
  constexpr std::int64_t kRows = 37, kColumns = 53;
  HostTensor a(Dtype::boolean, {kRows, kColumns}), b(Dtype::boolean, {kColumns});
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) a.values<bool>()[i] = i * i % 7 < 3;
  for (std::int64_t i = 0; i < kColumns; ++i) b.values<bool>()[i] = i % 3 == 0;
  for (const Logical& op : kLogical) {
    HostTensor wanted(Dtype::boolean, {kRows, kColumns});
    for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
      wanted.values<bool>()[i] = op.apply(a.values<bool>()[i], b.values<bool>()[i % kColumns]);
    }
    Graph graph;
    const Value x = constant(graph, a.clone()), y = constant(graph, b.clone());
    for (InPlaceUse in_place : {InPlaceUse::none, InPlaceUse::first_pairs}) {
      const auto results =
          run_kernels({op.build(x, y, Where::here()), op.build(y, x, Where::here())}, {}, {.in_place = in_place});
      EXPECT_TRUE(same_bits(results[0], wanted)) << op.name;
      EXPECT_TRUE(same_bits(results[1], wanted)) << op.name;
    }
  }
}

TEST(LogicalOps, RefuseWhatIsNoBooleanAndSayWhatToTry) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2}), is = placeholder(graph, "is", {2}, Dtype::boolean);
  for (const Logical& op : kLogical) {
    for (const auto& [a, b] : {std::pair{x, is}, std::pair{is, x}}) {
      try {
        op.build(a, b, Where::here());
        ADD_FAILURE() << op.name << " took f32";
      } catch (const ArgumentError& error) {
        EXPECT_NE(std::string(error.what()).find("wanted booleans; try a comparison"), std::string::npos);
      }
    }
  }
}

TEST(AssignmentSigns, MakeTheNameStandForTheResult) {
  Graph graph;
  const Value first = constant(graph, HostTensor::of<float>({3}, {1, 2, 3}));
  Value x = first;
  x += first;
  x *= 3.0F;
  x -= 2.0F;
  x /= first;
  const auto results = run_kernels({x, first}, {});
  EXPECT_TRUE(same_bits(results[0], HostTensor::of<float>({3}, {4, 5, 16.0F / 3.0F})));
  EXPECT_TRUE(same_bits(results[1], HostTensor::of<float>({3}, {1, 2, 3})));
  const Value kept = x;
  EXPECT_THROW(x += placeholder(graph, "y", {4}), ShapeError);
  EXPECT_EQ(x, kept) << "a refused one leaves the name as it was";
}

TEST(AssignmentSigns, RefuseWhatIsNoValueOnEitherSide) {
  Graph graph;
  const Value five = constant(graph, 5.0F);
  const int num_nodes = graph.num_nodes();
  Value x = five, none;
  EXPECT_THROW(x += none, ArgumentError);
  EXPECT_THROW(x *= Value(), ArgumentError);
  EXPECT_THROW(none += five, ArgumentError);
  EXPECT_THROW(none -= 1.0F, ArgumentError);
  EXPECT_EQ(x, five);
  EXPECT_FALSE(none.valid());
  EXPECT_EQ(graph.num_nodes(), num_nodes);
}

TEST(AssignmentSigns, AreOfTheLineInWhichTheyStand) {
  Graph graph;
  Value x = placeholder(graph, "x", {3});
  x += x;
  EXPECT_EQ(x.node().where().line, __LINE__ - 1);
  EXPECT_STREQ(x.node().where().file, __FILE__);
  x *= 2.0F;
  EXPECT_EQ(x.node().where().line, __LINE__ - 1);
}

TEST(NumbersBesideWholeNumbers, AreWholeOrRefused) {
  Graph graph;
  Value x = constant(graph, HostTensor::of<std::int64_t>({3}, {1, 2, 3}));
  const Value narrow = constant(graph, HostTensor::of<std::int32_t>({3}, {1, 2, 3}));
  const int num_nodes = graph.num_nodes();
  EXPECT_THROW((void)(x < 1.5F), ArgumentError);
  EXPECT_THROW(x + 0x1p31F, ArgumentError);
  EXPECT_THROW(x * NAN, ArgumentError);
  EXPECT_EQ(graph.num_nodes(), num_nodes);
  const Value small = x < 2.0F, large = 3.0F <= narrow;
  x += 4.0F;
  const auto results = run_kernels({small, large, x}, {});
  EXPECT_TRUE(same_bits(results[0], HostTensor::of<bool>({3}, {true, false, false})));
  EXPECT_TRUE(same_bits(results[1], HostTensor::of<bool>({3}, {false, false, true})));
  EXPECT_TRUE(same_bits(results[2], HostTensor::of<std::int64_t>({3}, {5, 6, 7})));
}

TEST(NumbersBesideWholeNumbers, AreExactBelowTwoToThe24AndRefusedFromThereOn) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<std::int64_t>({2}, {1, std::int64_t{1} << 40}));
  const Value narrow = constant(graph, HostTensor::of<std::int32_t>({1}, {16777216}));
  const int num_nodes = graph.num_nodes();
  EXPECT_THROW(x + static_cast<float>(16777217), ArgumentError) << "this is 16777216 by then";
  EXPECT_THROW(x - 0x1p24F, ArgumentError);
  EXPECT_THROW(-0x1p24F * x, ArgumentError);
  EXPECT_THROW((void)(narrow < static_cast<float>(16777217)), ArgumentError);
  EXPECT_EQ(graph.num_nodes(), num_nodes);
  const auto results = run_kernels({x + 16777215, -16777215 + x, narrow > 16777215}, {});
  EXPECT_TRUE(same_bits(results[0], HostTensor::of<std::int64_t>({2}, {16777216, 1099528404991})));
  EXPECT_TRUE(same_bits(results[1], HostTensor::of<std::int64_t>({2}, {-16777214, 1099494850561})));
  EXPECT_TRUE(same_bits(results[2], HostTensor::of<bool>({1}, {true})));
}

TEST(NumbersBesideValues, AreChosenFromAsTheirConstantsAre) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({3}, {-1, NAN, 2}));
  const Value whole = constant(graph, HostTensor::of<std::int32_t>({2}, {-1, 5}));
  const auto results = run_kernels({maximum(x, 0), minimum(x, 1.5F), select(is_finite(x), x, 0), select(x > 0, 7, x),
                                    maximum(whole, 2), select(whole > 0, whole, -3)},
                                   {});
  EXPECT_TRUE(same_bits(results[0], HostTensor::of<float>({3}, {0, NAN, 2})));
  EXPECT_TRUE(same_bits(results[1], HostTensor::of<float>({3}, {-1, NAN, 1.5F})));
  EXPECT_TRUE(same_bits(results[2], HostTensor::of<float>({3}, {-1, 0, 2})));
  EXPECT_TRUE(same_bits(results[3], HostTensor::of<float>({3}, {-1, NAN, 7})));
  EXPECT_TRUE(same_bits(results[4], HostTensor::of<std::int32_t>({2}, {2, 5})));
  EXPECT_TRUE(same_bits(results[5], HostTensor::of<std::int32_t>({2}, {-3, 5})));
  const int num_nodes = graph.num_nodes();
  EXPECT_THROW(maximum(whole, 0.5F), ArgumentError);
  EXPECT_THROW(select(x, x, 0), ArgumentError) << "no boolean";
  EXPECT_EQ(graph.num_nodes(), num_nodes);
}

TEST(ComparisonOps, AreFalseForNanButNotEqual) {
  Graph graph;
  const Value nan = constant(graph, HostTensor::of<float>({2}, {NAN, NAN}));
  const Value x = constant(graph, HostTensor::of<float>({2}, {1, NAN}));
  for (const Comparison& op : kComparisons) {
    const bool wanted = std::string(op.name) == "not_equal";
    const auto results = run_kernels({op.build(nan, x, Where::here()), op.build(x, nan, Where::here())}, {});
    for (const HostTensor& y : results) EXPECT_TRUE(same_bits(y, HostTensor::of<bool>({2}, {wanted, wanted})));
  }
}

TEST(ComparisonOps, OfI64SeeEveryBit) {
  Graph graph;
  constexpr std::int64_t kBig = std::int64_t{1} << 53;
  const Value a = constant(graph, HostTensor::of<std::int64_t>({2}, {kBig, -5}));
  const Value b = constant(graph, HostTensor::of<std::int64_t>({2}, {kBig + 1, 3}));
  const auto results = run_kernels({less(a, b), greater_equal(a, b), not_equal(a, b)}, {});
  EXPECT_TRUE(same_bits(results[0], HostTensor::of<bool>({2}, {true, true})));
  EXPECT_TRUE(same_bits(results[1], HostTensor::of<bool>({2}, {false, false})));
  EXPECT_TRUE(same_bits(results[2], HostTensor::of<bool>({2}, {true, true})));
}

TEST(ComparisonOps, RefuseWhatDoesNotFit) {
  Graph graph;
  const auto in = [&](Shape shape, Dtype dtype = Dtype::f32) {
    return placeholder(graph, "x", std::move(shape), dtype);
  };
  for (const Comparison& op : kComparisons) {
    EXPECT_THROW(op.build(in({2}), in({2}, Dtype::i32), Where::here()), ArgumentError) << op.name;
    EXPECT_THROW(op.build(in({2}), in({3}), Where::here()), ShapeError) << op.name;
  }
}

TEST(Equal, GivesTheSameOnEveryThreadCount) {
  HostTensor content(Dtype::i32, {50021});
  for (int i = 0; std::int32_t & element : content.values<std::int32_t>()) element = i++ % 3;
  Graph graph;
  const Value y = equal(constant(graph, std::move(content)), fill(graph, {50021}, 1, Dtype::i32));
  for (int threads : {1, 2, 3}) {
    const HostTensor result = std::move(run_kernels({y}, {}, {.threads = threads})[0]);
    for (std::size_t i = 0; bool is_equal : result.values<bool>()) ASSERT_EQ(is_equal, i++ % 3 == 1);
  }
}

OpCase select_case(std::string name, const Shape& condition, const Shape& a, const Shape& b) {
  const CaseInput chooser{.type = {Dtype::boolean, condition}, .low = 0, .high = 1};
  return {.name = std::move(name),
          .inputs = {chooser, input(a), input(b)},
          .build = [](Graph&, const std::vector<Value>& in) { return std::vector{select(in[0], in[1], in[2])}; },
          .reference =
              [=](const std::vector<Doubles>& in) {
                const Shape out = broadcast_shapes(condition, broadcast_shapes(a, b, "test"), "test");
                Doubles y(static_cast<std::size_t>(out.num_elements()));
                for (std::size_t i = 0; i < y.size(); ++i) {
                  const auto index = static_cast<std::int64_t>(i);
                  y[i] = in[0][source_index(index, out, condition)] != 0 ? in[1][source_index(index, out, a)]
                                                                         : in[2][source_index(index, out, b)];
                }
                return std::vector<Doubles>{y};
              },
          .tolerance = {.relative = 0, .absolute = 0},
          .same_bits_for_any_threads = true};
}

class Select : public testing::TestWithParam<OpCase> {};
TEST_P(Select, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Cases, Select,
    testing::Values(select_case("same", {7, 5}, {7, 5}, {7, 5}), select_case("scalars", {}, {}, {}),
                    select_case("one_condition_a_row", {6, 1}, {6, 7}, {6, 7}),
                    select_case("scalar_a", {3, 11}, {}, {3, 11}), select_case("scalar_b", {3, 11}, {3, 11}, {1}),
                    select_case("both_scalar", {33}, {}, {}), select_case("scalar_condition", {1}, {9, 2}, {2}),
                    select_case("mask_of_attention", {5, 5}, {2, 3, 5, 5}, {}),
                    select_case("outer", {4, 1, 3}, {5, 1}, {2, 1, 1, 1}), select_case("none", {0, 3}, {3}, {0, 3}),
                    select_case("large", {151, 333}, {151, 333}, {151, 333}),
                    select_case("large_mask", {151, 1}, {151, 333}, {333})),
    case_name);

template <class T>
void expect_chosen() {
  Graph graph;
  const Value condition = constant(graph, HostTensor::of<bool>({3}, {true, false, true}));
  const Value a = constant(graph, HostTensor::of<T>({3}, {T{1}, T{0}, T{1}}));
  const Value b = constant(graph, HostTensor::of<T>({}, {T{0}}));
  for (InPlaceUse in_place : {InPlaceUse::none, InPlaceUse::first_pairs, InPlaceUse::last_pairs}) {
    const auto results = run_kernels({select(condition, a, b), select(condition, b, a)}, {}, {.in_place = in_place});
    EXPECT_TRUE(same_bits(results[0], HostTensor::of<T>({3}, {T{1}, T{0}, T{1}})));
    EXPECT_TRUE(same_bits(results[1], HostTensor::of<T>({3}, {T{0}, T{0}, T{0}})));
  }
}

TEST(SelectOp, TakesEveryDtype) {
  expect_chosen<float>();
  expect_chosen<double>();
  expect_chosen<std::int32_t>();
  expect_chosen<std::int64_t>();
  expect_chosen<std::uint8_t>();
  expect_chosen<bool>();
}

TEST(SelectOp, RefusesWhatDoesNotFit) {
  Graph graph;
  const Value yes = placeholder(graph, "yes", {2}, Dtype::boolean), x = placeholder(graph, "x", {2});
  const Value wide = placeholder(graph, "wide", {3}), whole = placeholder(graph, "whole", {2}, Dtype::i32);
  EXPECT_THROW(select(x, x, x), ArgumentError);
  EXPECT_THROW(select(yes, x, whole), ArgumentError);
  EXPECT_THROW(select(yes, x, wide), ShapeError);
  EXPECT_THROW(select(yes, wide, wide), ShapeError);
}

}  // namespace

}  // namespace sectionflow
