#include "graph/ops/reshape.h"

#include "graph/ops/basic.h"
#include "tests/support/moved.h"

namespace sectionflow {
namespace {

using namespace testing_support;

OpCase reshape_case(std::string name, Shape from, Shape to, bool dynamic_batch = false) {
  return {.name = std::move(name),
          .inputs = {input(std::move(from))},
          .build = [to](Graph&, const std::vector<Value>& in) { return std::vector{reshape(in[0], to)}; },
          .reference = [](const std::vector<Doubles>& in) { return in; },
          .tolerance = {.relative = 0, .absolute = 0},
          .dynamic_batch = dynamic_batch,
          .same_bits_for_any_threads = true};
}

class Reshape : public testing::TestWithParam<OpCase> {};
TEST_P(Reshape, KeepsTheElementsAndPassesTheGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Reshape,
                         testing::Values(reshape_case("flatten", {4, 3, 2}, {-1}),
                                         reshape_case("flatten_images", {5, 7, 7, 3}, {-1, 147}, true),
                                         reshape_case("to_scalar", {1, 1}, {}),
                                         reshape_case("of_scalar", {}, {1, 1, 1}),
                                         reshape_case("empty", {0, 6}, {2, 0, 3}),
                                         reshape_case("empty_batch", {0, 6}, {-1, 2, 3}, true),
                                         reshape_case("large", {300, 1001}, {1001, 300})),
                         case_name);

OpCase flatten_case(std::string name, Shape from, Dtype dtype = Dtype::f32) {
  OpCase op_case = moving_case(
      std::move(name), {moved_input(dtype, std::move(from))},
      [](Graph&, const std::vector<Value>& in) { return std::vector{flatten(in[0])}; },
      [](const std::vector<Doubles>& in) { return in; });
  op_case.dynamic_batch = true;
  return op_case;
}

INSTANTIATE_TEST_SUITE_P(Flatten, Reshape,
                         testing::Values(flatten_case("flatten_vector", {5}), flatten_case("flatten_matrix", {3, 4}),
                                         flatten_case("flatten_image", {5, 7, 7, 3}),
                                         flatten_case("flatten_no_images", {0, 7, 3}),
                                         flatten_case("flatten_no_pixels", {4, 0, 3}),
                                         flatten_case("flatten_bytes", {4, 3, 2}, Dtype::u8)),
                         case_name);

TEST(ReshapeShapes, FlattenLeavesUnknownWhatTheFeedDecides) {
  Graph graph;
  EXPECT_EQ(flatten(placeholder(graph, "a", {kDynamic, 7, 3})).type().text(), "f32[?,21]");
  EXPECT_EQ(flatten(placeholder(graph, "b", {kDynamic, kDynamic, 3})).type().text(), "f32[?,?]");
  EXPECT_EQ(flatten(placeholder(graph, "c", {kDynamic})).type().text(), "f32[?,1]");
  const Value scalar = placeholder(graph, "scalar", {});
  expect_refused<ShapeError>([&] { flatten(scalar); }, "flatten 'flatten", {"scalar", "try reshape"});
}

TEST(ReshapeExactly, TakesEveryDtypeInPlaceOrNot) {
  Graph graph;
  std::vector<Value> fetches;
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::boolean}) {
    fetches.push_back(reshape(fill(graph, {2, 3}, 1, dtype), {3, 2}));
    fetches.push_back(reshape_like(fill(graph, {2, 3}, 1, dtype), fill(graph, {6}, 0)));
  }
  for (InPlaceUse in_place : {InPlaceUse::none, InPlaceUse::first_pairs}) {
    const auto results = run_kernels(fetches, {}, {.in_place = in_place});
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i].shape(), i % 2 == 0 ? Shape({3, 2}) : Shape({6}));
      EXPECT_EQ(doubles_of(results[i]), Doubles(6, 1.0));
    }
  }
}

}  // namespace
}  // namespace sectionflow
