// Shape rules of updates; see shapes.cpp.

#include <gtest/gtest.h>

#include "graph/op_def.h"
#include "graph/ops/update.h"
#include "tests/graph/shapes.h"

namespace sectionflow {
namespace {

using testing_support::Shapes;

TEST_F(Shapes, UpdatesWantVariables) {
  const Value x = in({2}), v = var({2}), m = var({2});
  const Value rate = in({}), steps = in({}, Dtype::i64), yes = in({}, Dtype::boolean);
  const std::string wanted = "is made by placeholder; wanted a variable";
  expect_refused<ArgumentError>([&] { assign(x, v); }, "assign: 'x'", {wanted});
  expect_refused<ArgumentError>([&] { assign_add(x, v); }, "assign_add: 'x'", {wanted});
  expect_refused<ArgumentError>([&] { update_moving_average(x, v, yes, 0.5F); }, "update_moving_average: 'x'",
                                {wanted});
  expect_refused<ArgumentError>([&] { apply_sgd(x, v, rate); }, "apply_sgd: 'x'", {wanted});
  expect_refused<ArgumentError>([&] { apply_adam(v, m, x, x, rate, steps); }, "apply_adam: 'x'", {wanted});
}

TEST_F(Shapes, UpdatesGiveNoValueAndChangeTheirVariables) {
  const Value x = in({2}), v = var({2}), m = var({2}), n = var({2});
  const Value rate = in({}), steps = in({}, Dtype::i64), yes = in({}, Dtype::boolean);
  const std::vector<Operation> updates = {assign(v, x), assign_add(v, x), update_moving_average(v, x, yes, 0.5F),
                                          apply_sgd(v, x, rate), apply_adam(v, m, n, x, rate, steps)};
  for (const Operation& update : updates) {
    const Node& node = update.node();
    EXPECT_TRUE(node.output_types().empty()) << node.label();
    EXPECT_EQ(node.op().recompute, Recompute::once) << node.label();
    const std::size_t wanted = node.op().name == "apply_adam" ? 3 : 1;
    EXPECT_EQ(node.op().updated_inputs.size(), wanted) << node.label();
  }
}

TEST_F(Shapes, UpdatesWantTheirVariablesTypeAndScalars) {
  const Value v = var({2}), m = var({2}), rate = in({}), yes = in({}, Dtype::boolean);
  expect_refused<ShapeError>([&] { assign(v, in({3})); }, "assign 'v/assign", {"f32[2]", "f32[3]"});
  expect_refused<ArgumentError>([&] { assign(v, in({2}, Dtype::i32)); }, "assign 'v/assign", {"f32[2]", "i32[2]"});
  const Value flags = var({2}, Dtype::boolean);
  expect_refused<ArgumentError>([&] { assign_add(flags, in({2}, Dtype::boolean)); }, "assign_add", {"bool[2]"});
  expect_refused<ShapeError>([&] { apply_sgd(v, in({3}), rate); }, "apply_sgd 'v/apply_sgd'", {"f32[2]", "f32[3]"});
  expect_refused<ArgumentError>([&] { apply_sgd(v, in({2}), in({1})); }, "apply_sgd 'v/apply_sgd'",
                                {"learning_rate is f32[1]"});
  expect_refused<ArgumentError>([&] { apply_adam(v, m, m, in({2}), rate, in({})); }, "apply_adam 'v/apply_adam'",
                                {"steps is f32[]", "i64[]"});
  expect_refused<ArgumentError>([&] { update_moving_average(v, in({2}), yes, -0.1F); }, "update_moving_average of 'v'",
                                {"decay -0.1"});
  // A batch that is still open may turn out to fit.
  EXPECT_NO_THROW(assign(v, in({kDynamic})));
}

}  // namespace
}  // namespace sectionflow
