// Functions of shapes: values and gradients beside loops, and what is copied.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_def.h"
#include "graph/ops/unary.h"
#include "graph/transformer.h"
#include "runtime/session.h"
#include "tests/graph/functions_case.h"

namespace sectionflow::function_case {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A function of shapes: element `place` of its result is element `from(place)` of x.
struct Moving {
  const char* name;
  Shape x, y;
  Value (*build)(Value);
  Position (*from)(const Position& place);
  bool dynamic_batch = true;
};

const Moving kMoving[] = {
    {"tile",
     {2, 3},
     {4, 9},
     [](Value x) {
       return tile(x, {2, 3});
     },
     [](const Position& p) {
       return Position{p[0] % 2, p[1] % 3};
     }},
    {"tile_of_the_batch",
     {3, 2, 2},
     {6, 2, 2},
     [](Value x) {
       return tile(x, {2, 1, 1});
     },
     [](const Position& p) {
       return Position{p[0] % 3, p[1], p[2]};
     }},
    {"tile_of_the_middle",
     {3, 2, 4},
     {3, 10, 4},
     [](Value x) {
       return tile(x, {1, 5, 1});
     },
     [](const Position& p) {
       return Position{p[0], p[1] % 2, p[2]};
     }},
    {"tile_once",
     {3, 2},
     {3, 2},
     [](Value x) {
       return tile(x, {1, 1});
     },
     [](const Position& p) { return p; }},
    {"tile_of_no_rows",
     {0, 2},
     {0, 4},
     [](Value x) {
       return tile(x, {3, 2});
     },
     [](const Position& p) {
       return Position{p[0], p[1] % 2};
     }},
    {"repeat",
     {3, 2},
     {3, 6},
     [](Value x) { return repeat(x, 3, -1); },
     [](const Position& p) {
       return Position{p[0], p[1] / 3};
     }},
    {"repeat_of_the_batch",
     {3, 2},
     {6, 2},
     [](Value x) { return repeat(x, 2, 0); },
     [](const Position& p) {
       return Position{p[0] / 2, p[1]};
     }},
    {"repeat_once", {3, 2}, {3, 2}, [](Value x) { return repeat(x, 1, 0); }, [](const Position& p) { return p; }},
    {"flip_of_rows",
     {4, 3},
     {4, 3},
     [](Value x) { return flip(x, {0}); },
     [](const Position& p) {
       return Position{3 - p[0], p[1]};
     },
     false},
    {"flip_of_columns",
     {4, 3},
     {4, 3},
     [](Value x) { return flip(x, {-1}); },
     [](const Position& p) {
       return Position{p[0], 2 - p[1]};
     }},
    {"flip_of_images",
     {2, 3, 4, 2},
     {2, 3, 4, 2},
     [](Value x) { return flip(x, {2}); },
     [](const Position& p) {
       return Position{p[0], p[1], 3 - p[2], p[3]};
     }},
    {"flip_twice",
     {2, 3, 4, 2},
     {2, 3, 4, 2},
     [](Value x) {
       return flip(x, {2, -3});
     },
     [](const Position& p) {
       return Position{p[0], 2 - p[1], 3 - p[2], p[3]};
     }},
    {"flip_of_all",
     {3, 4},
     {3, 4},
     [](Value x) {
       return flip(x, {1, 0});
     },
     [](const Position& p) {
       return Position{2 - p[0], 3 - p[1]};
     },
     false},
    {"flip_of_none", {3, 4}, {3, 4}, [](Value x) { return flip(x, {}); }, [](const Position& p) { return p; }},
    {"squeeze",
     {3, 1, 2, 1},
     {3, 2},
     [](Value x) {
       return squeeze(x, {-1, 1});
     },
     [](const Position& p) {
       return Position{p[0], 0, p[1], 0};
     }},
    {"squeeze_of_all",
     {1, 1},
     {},
     [](Value x) {
       return squeeze(x, {0, 1});
     },
     [](const Position&) {
       return Position{0, 0};
     },
     false},
    {"expand_dims",
     {3, 2},
     {3, 1, 2},
     [](Value x) { return expand_dims(x, 1); },
     [](const Position& p) {
       return Position{p[0], p[2]};
     }},
    {"expand_dims_behind",
     {3, 2},
     {3, 2, 1},
     [](Value x) { return expand_dims(x, -1); },
     [](const Position& p) {
       return Position{p[0], p[1]};
     }},
    {"expand_dims_in_front",
     {3, 2},
     {1, 3, 2},
     [](Value x) { return expand_dims(x, -3); },
     [](const Position& p) {
       return Position{p[1], p[2]};
     }},
};

Doubles moved(const Moving& moving, const Doubles& x) {
  Doubles y;
  for (std::int64_t i = 0; i < moving.y.num_elements(); ++i) {
    y.push_back(x[number_of(moving.from(position_of(i, moving.y)), moving.x)]);
  }
  return y;
}

std::vector<OpCase> moving_cases() {
  std::vector<OpCase> all;
  for (const Moving& moving : kMoving) {
    all.push_back(
        {.name = moving.name,
         .inputs = {input(moving.x)},
         .build = [&](Graph&, const std::vector<Value>& in) { return std::vector{moving.build(in[0])}; },
         .reference = [&](const std::vector<Doubles>& in) { return std::vector<Doubles>{moved(moving, in[0])}; },
         .tolerance = {.relative = 0, .absolute = 0},
         .dynamic_batch = moving.dynamic_batch,
         .same_bits_for_any_threads = true});
    if (moving.name == std::string("flip_twice") || moving.name == std::string("tile")) {
      all.push_back(in_bf16(all.back()));
    }
  }
  return all;
}

class FunctionsOfShapes : public testing::TestWithParam<OpCase> {};
TEST_P(FunctionsOfShapes, MoveElementsWithTheirGradients) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, FunctionsOfShapes, testing::ValuesIn(moving_cases()), case_name);

TEST(FunctionsOfShapes, TakeEveryDtype) {
  for (const Dtype dtype : {Dtype::i32, Dtype::i64, Dtype::boolean, Dtype::bf16, Dtype::f64}) {
    for (const Moving& moving : kMoving) {
      Doubles x(static_cast<std::size_t>(moving.x.num_elements()));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = dtype == Dtype::boolean ? i % 3 % 2 : static_cast<double>(i);
      const HostTensor y = result_of(moving.build, {dtype, moving.x}, x);
      EXPECT_EQ(y.type(), (TensorType{dtype, moving.y})) << moving.name;
      EXPECT_EQ(doubles_of(y), moved(moving, x)) << moving.name;
    }
  }
}

TEST(FunctionsOfShapes, ChangeTheNumberOfAxesWithoutACopy) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 1, 3});
  for (const Value& y : {squeeze(x, {1}), expand_dims(x, 1), expand_dims(x, -1)}) {
    EXPECT_EQ(y.node().op().name, "reshape");
  }
  EXPECT_EQ(squeeze(x, {}), x);
  EXPECT_EQ(tile(x, {1, 1, 1}), x);
}

TEST(FunctionsOfShapes, FlipTheFirstAxesByOneGather) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3, 4, kDynamic}), y = flip(x, {0});
  EXPECT_EQ(y.node().op().name, "gather");
  EXPECT_EQ(y.node().inputs()[0], x);
  EXPECT_EQ(flip(x, {1}).node().op().name, "transpose");
}

TEST(FunctionsOfShapes, ChangeTheNumberOfAxesOfSeveralUnknownSizes) {
  Graph graph;
  const Shape shape{kDynamic, 1, kDynamic};
  const Value x = placeholder(graph, "x", shape), mask = placeholder(graph, "mask", shape, Dtype::boolean);
  const Value squeezed = squeeze(x, {1}), expanded = expand_dims(mask, 2);
  EXPECT_EQ(squeezed.shape(), (Shape{kDynamic, kDynamic}));
  EXPECT_EQ(expanded.shape(), (Shape{kDynamic, 1, 1, kDynamic}));
  testing_support::Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({2, 1, 2}, {1, 2, 3, 4}));
  feeds.emplace(mask, op_cases::tensor_of({Dtype::boolean, {3, 1, 2}}, {1, 0, 0, 1, 1, 0}));
  const std::vector<HostTensor> found = run_kernels({squeezed, expanded}, feeds);
  EXPECT_EQ(found[0].shape(), (Shape{2, 2}));
  EXPECT_EQ(doubles_of(found[0]), (Doubles{1, 2, 3, 4}));
  EXPECT_EQ(found[1].shape(), (Shape{3, 1, 1, 2}));
  EXPECT_EQ(doubles_of(found[1]), (Doubles{1, 0, 0, 1, 1, 0}));
}

TEST(FunctionsOfShapes, KeepTheBitsOfNumbersOfSeveralUnknownSizes) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 1, kDynamic}), y = squeeze(x, {1});
  const Value mask = placeholder(graph, "mask", {kDynamic, 1, kDynamic}, Dtype::boolean);
  EXPECT_EQ(squeeze(mask, {1}).type().text(), "bool[?,?]");
  for (const Value& renamed : {y, expand_dims(x, 0)}) {
    EXPECT_TRUE(renamed.node().op().is_identity) << renamed.node().label();
    EXPECT_EQ(renamed.node().inputs()[0], x);
  }
  Session session(graph, {.threads = 1});
  session.initialize();
  const auto found = session.run({y}, {{x, HostTensor::of<float>({1, 1, 2}, {-0.0F, 1e-40F})}});
  EXPECT_TRUE(std::signbit(found[0].values<float>()[0]));
  EXPECT_EQ(found[0].values<float>()[1], 1e-40F);
  const Value truth = squeeze(mask, {1});
  EXPECT_EQ(session.run({truth}, {{mask, HostTensor(Dtype::boolean, {3, 1, 2})}})[0].shape(), (Shape{3, 2}));
}

TEST(FunctionsOfShapes, RefuseConstantsOfMoreThanKMostTableBytes) {
  Graph graph;
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  const Value lengths = placeholder(graph, "lengths", {kDynamic}, Dtype::i32);
  const Value x = placeholder(graph, "x", {kHuge, 2}), rows = placeholder(graph, "rows", {kHuge, 8});
  const int before = graph.num_nodes();
  const auto refused = [](const char* call) {
    return ThrowsMessage<ArgumentError>(AllOf(HasSubstr(call), HasSubstr("kMostTableBytes, 1073741824 bytes")));
  };
  EXPECT_THAT([&] { (void)range(graph, kHuge); }, refused("range: a constant of 1099511627776 numbers of 8 bytes"));
  EXPECT_THAT([&] { (void)range(graph, INT64_MAX, {.dtype = Dtype::i32}); }, refused("range"));
  EXPECT_THAT([&] { (void)linspace(graph, 0, 1, kHuge); }, refused("linspace"));
  EXPECT_THAT([&] { (void)sequence_mask(lengths, kHuge); }, refused("sequence_mask"));
  EXPECT_THAT([&] { (void)flip(x, {0}); }, refused("flip: 'x' is"));
  EXPECT_THAT([&] { (void)rotary(rows); }, refused("rotary of 'rows'"));
  EXPECT_EQ(graph.num_nodes(), before);
}

TEST(Range, OfFloatsHoldsWholeNumbersOrRefuses) {
  Graph graph;
  const auto of = [&](std::int64_t first) { (void)range(graph, 1, {.first = first, .dtype = Dtype::f32}); };
  EXPECT_NO_THROW(of(std::int64_t{1} << 60));
  EXPECT_NO_THROW(of(INT64_MIN));
  for (const std::int64_t first : {(std::int64_t{1} << 60) + 1, (std::int64_t{1} << 53) + 1, INT64_MAX}) {
    EXPECT_THROW(of(first), ArgumentError) << first;
  }
}

TEST(SequenceMask, IsTrueBelowEachLength) {
  for (const Dtype dtype : {Dtype::i32, Dtype::i64}) {
    for (const Shape& declared : {Shape{2, 3}, Shape{kDynamic, 3}, Shape{kDynamic, kDynamic}}) {
      const HostTensor mask = result_of([](Value lengths) { return sequence_mask(lengths, 4); }, {dtype, {2, 3}},
                                        {0, 1, 4, 9, -2, 3}, declared);
      EXPECT_EQ(mask.type(), (TensorType{Dtype::boolean, {2, 3, 4}}));
      EXPECT_EQ(doubles_of(mask), (Doubles{0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0}));
    }
  }
  const HostTensor none =
      result_of([](Value lengths) { return sequence_mask(lengths, 4); }, {Dtype::i32, {0}}, {}, {kDynamic});
  EXPECT_EQ(none.shape(), (Shape{0, 4}));
}

TEST(Range, IsAConstantOfEqualSteps) {
  Graph graph;
  const auto content = [](Value value) { return doubles_of(*constant_content(value)); };
  EXPECT_EQ(content(range(graph, 4)), (Doubles{0, 1, 2, 3}));
  EXPECT_EQ(content(range(graph, 3, {.first = 5, .step = -3, .dtype = Dtype::i32})), (Doubles{5, 2, -1}));
  EXPECT_EQ(content(range(graph, 2, {.first = 1 << 23, .step = 1, .dtype = Dtype::f32})),
            (Doubles{1 << 23, (1 << 23) + 1}));
  EXPECT_EQ(range(graph, 0).shape(), (Shape{0}));
  EXPECT_EQ(range(graph, 1, {.dtype = Dtype::f32}).dtype(), Dtype::f32);
  EXPECT_EQ(content(linspace(graph, -1, 2, 4)), (Doubles{-1, 0, 1, 2}));
  EXPECT_EQ(content(linspace(graph, 3, 7, 1)), (Doubles{3}));
  EXPECT_EQ(content(linspace(graph, 0.1F, 0.3F, 3)), (Doubles{0.1F, 0.2F, 0.3F}));
  EXPECT_EQ(content(linspace(graph, 3e38F, -3e38F, 3)), (Doubles{3e38F, 0, -3e38F}));
}

TEST(FunctionsOfShapes, RefuseWhatDoesNotFitAndAddNothing) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 1, 3}),
              several = placeholder(graph, "several", {kDynamic, kDynamic});
  const Value some = placeholder(graph, "some", {kDynamic, kDynamic, 2, 3});
  const int before = graph.num_nodes();
  EXPECT_THAT([&] { (void)squeeze(x, {2}); }, ThrowsMessage<ShapeError>(AllOf(HasSubstr("squeeze: 'x' is f32[?,1,3]"),
                                                                              HasSubstr("the size 1 along axis 2"))));
  EXPECT_THROW(squeeze(x, {0}), ShapeError);
  EXPECT_THROW(squeeze(x, {3}), ShapeError);
  EXPECT_THAT([&] { (void)squeeze(x, {1, -2}); }, ThrowsMessage<ShapeError>(HasSubstr("axis -2 is named twice")));
  for (const int axis : {4, -5}) {
    EXPECT_THAT([&] { (void)expand_dims(x, axis); }, ThrowsMessage<ShapeError>(HasSubstr("expand_dims: 'x' is")));
  }
  EXPECT_THAT(
      [&] {
        (void)tile(x, {1, 2});
      },
      ThrowsMessage<ArgumentError>(AllOf(HasSubstr("2 multiples"), HasSubstr("wanted one an axis"))));
  EXPECT_THAT(
      [&] {
        (void)tile(x, {1, 0, 2});
      },
      ThrowsMessage<ArgumentError>(AllOf(HasSubstr("repeated 0 times along axis 1"), HasSubstr("wanted 1 or more"))));
  EXPECT_THROW(tile(x, {1, 1, std::int64_t{1} << 62}), ShapeError);
  EXPECT_THAT(
      [&] {
        (void)tile(several, {1, 2});
      },
      ThrowsMessage<ShapeError>(AllOf(HasSubstr("'several' is f32[?,?]"), HasSubstr("the feed decides"))));
  EXPECT_THROW(repeat(x, -1, 0), ArgumentError);
  EXPECT_THROW(repeat(x, 2, 3), ShapeError);
  EXPECT_THAT([&] { (void)flip(x, {0}); }, ThrowsMessage<ShapeError>(HasSubstr("wanted a known size along axis 0")));
  EXPECT_THROW(flip(x, {1, 1}), ShapeError);
  EXPECT_THAT([&] { (void)flip(some, {2, 3}); }, ThrowsMessage<ShapeError>(HasSubstr("one axis after the other")));
  EXPECT_NO_THROW((void)graph.tried([&] { return flip(flip(some, {2}), {3}); }));
  EXPECT_THROW(sequence_mask(x, 4), ArgumentError);
  EXPECT_THROW(sequence_mask(placeholder(graph, "n", {3}, Dtype::i32), 0), ArgumentError);
  EXPECT_THROW(range(graph, -1), ArgumentError);
  EXPECT_THROW(range(graph, 3, {.dtype = Dtype::bf16}), ArgumentError);
  EXPECT_THAT([&] { (void)range(graph, 2, {.first = 1 << 24, .dtype = Dtype::f32}); },
              ThrowsMessage<ArgumentError>(HasSubstr("range: 16777217 is no f32")));
  EXPECT_THROW(range(graph, 2, {.first = std::int64_t{1} << 31, .dtype = Dtype::i32}), ArgumentError);
  EXPECT_THROW(range(graph, 2, {.first = std::int64_t{1} << 62, .step = std::int64_t{1} << 62}), ShapeError);
  EXPECT_THROW(linspace(graph, 0, 1, 0), ArgumentError);
  EXPECT_THROW(linspace(graph, 0, std::numeric_limits<float>::infinity(), 2), ArgumentError);
  EXPECT_EQ(graph.num_nodes(), before + 1);
  EXPECT_TRUE(graph.scope_names().empty());
}

}  // namespace
}  // namespace sectionflow::function_case
