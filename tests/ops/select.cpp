#include "graph/ops/select.h"

#include "graph/ops/basic.h"
#include "graph/ops/compare.h"
#include "tests/support/broadcast_reference.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

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
