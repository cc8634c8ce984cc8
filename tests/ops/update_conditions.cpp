// Updates under conditions: one that the host knows, and a gate that a run computes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <any>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/nodes/update.h"
#include "graph/op_registry.h"
#include "graph/ops/basic.h"
#include "graph/ops/scaled_update.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Positive numbers without a pattern.
HostTensor bumpy(const Shape& shape, float phase) {
  HostTensor tensor(Dtype::f32, shape);
  for (int i = 0; float& element : tensor.values<float>()) {
    element = 1.5F + std::sin(phase + 1.7F * static_cast<float>(i++));
  }
  return tensor;
}

/// An update with its operands.
struct Conditional {
  std::vector<Value> inputs;
  std::vector<Value> changed;
  Feeds feeds;
};

/// Every op that takes conditions, with the options that it has.
const std::vector<std::pair<std::string, std::any>>& conditional_ops() {
  static const std::vector<std::pair<std::string, std::any>> ops = {
      {"assign_add", {}},
      {"apply_sgd", {}},
      {"apply_momentum", MomentumOptions{}},
      {"apply_momentum", MomentumOptions{.nesterov = true}},
      {"apply_adagrad", AdagradOptions{}},
      {"apply_rms_prop", RmsPropOptions{}},
      {"apply_lion", LionOptions{}},
      {"apply_lamb", LambOptions{}},
      {"apply_adafactor_by_squares", AdafactorOptions{}},
      {"apply_adam", AdamOptions{}},
      {"apply_adam_w", AdamWOptions{}},
      {"average_weights", WeightAverageOptions{}},
      {"average_weights", WeightAverageOptions{.kind = Averaging::uniform, .start = 1}}};
  return ops;
}

Conditional operands(Graph& graph, const std::string& op, const Shape& shape) {
  Conditional result;
  const auto add_variable = [&](const Shape& of, Dtype dtype) {
    const Value added = variable("v", fill(graph, of, 0, dtype));
    result.feeds.emplace(added, dtype == Dtype::i64 ? HostTensor::scalar(std::int64_t{3})
                                                    : bumpy(of, static_cast<float>(result.inputs.size())));
    result.inputs.push_back(added);
  };
  const auto add_fed = [&](const Shape& of) {
    const Value added = placeholder(graph, "x", of);
    result.feeds.emplace(added, bumpy(of, static_cast<float>(result.inputs.size())));
    result.inputs.push_back(added);
  };
  const OpDef& definition = op_registry().at(op);
  for (std::size_t i = 0; i < definition.updated_inputs.size(); ++i) add_variable(shape, Dtype::f32);
  if (op != "average_weights") add_fed(shape);
  if (op.starts_with("apply_")) add_fed({});
  if (static_cast<int>(result.inputs.size()) < definition.inputs.least) add_variable({}, Dtype::i64);
  for (int index : definition.updated_inputs) result.changed.push_back(result.inputs[static_cast<std::size_t>(index)]);
  return result;
}

/// The contents of what the update changes, or would change, afterwards.
std::vector<HostTensor> after(Graph& graph, const std::string& op, const std::any& options, const Shape& shape,
                              std::optional<bool> condition, std::optional<bool> gate) {
  Conditional c = operands(graph, op, shape);
  UpdateConditions conditions;
  if (condition) {
    conditions.condition = placeholder(graph, "condition", {}, Dtype::boolean);
    c.feeds.emplace(conditions.condition, HostTensor::scalar(*condition));
  }
  if (gate) {
    conditions.gate = placeholder(graph, "gate", {}, Dtype::boolean);
    c.feeds.emplace(conditions.gate, HostTensor::scalar(*gate));
  }
  const RunResult result = run_kernels({}, {conditional_update(op, c.inputs, options, conditions)}, c.feeds);
  std::vector<HostTensor> contents;
  for (const Value& changed : c.changed) {
    const auto found = result.variables.find(changed);
    const HostTensor& content = found == result.variables.end() ? c.feeds.at(changed) : found->second;
    HostTensor copy(content.type());
    std::copy_n(content.bytes(), content.num_bytes(), copy.bytes());
    contents.push_back(std::move(copy));
  }
  return contents;
}

bool all_alike(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!bitwise_equal(a[i], b[i])) return false;
  }
  return a.size() == b.size();
}

TEST(UpdateConditions, OnesThatHoldLeaveTheBitsOfTheUpdateAsTheyAre) {
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{0, 3}, Shape{5003}}) {
    for (const auto& [op, options] : conditional_ops()) {
      Graph graph;
      const auto plain = after(graph, op, options, shape, {}, {});
      for (const auto& [condition, gate] : std::vector<std::pair<std::optional<bool>, std::optional<bool>>>{
               {true, std::nullopt}, {std::nullopt, true}, {true, true}}) {
        EXPECT_TRUE(all_alike(plain, after(graph, op, options, shape, condition, gate))) << op << " " << shape;
      }
      Conditional before = operands(graph, op, shape);
      if (shape.num_elements() == 0) continue;
      EXPECT_FALSE(bitwise_equal(plain[0], before.feeds.at(before.changed[0]))) << op;
    }
  }
}

TEST(UpdateConditions, OnesThatDoNotHoldChangeNothing) {
  for (const auto& [op, options] : conditional_ops()) {
    Graph graph;
    const Conditional before = operands(graph, op, {1001});
    for (const auto& [condition, gate] : std::vector<std::pair<std::optional<bool>, std::optional<bool>>>{
             {false, std::nullopt}, {std::nullopt, false}, {true, false}, {false, true}, {false, false}}) {
      const auto contents = after(graph, op, options, {1001}, condition, gate);
      for (std::size_t i = 0; i < contents.size(); ++i) {
        EXPECT_TRUE(bitwise_equal(contents[i], before.feeds.at(before.changed[i]))) << op << ", input " << i;
      }
    }
  }
}

TEST(UpdateConditions, OfAnotherTypeAreRefused) {
  Graph graph;
  const Conditional c = operands(graph, "apply_sgd", {2});
  const Value number = placeholder(graph, "number", {}), flags = placeholder(graph, "flags", {2}, Dtype::boolean);
  const Value flag = placeholder(graph, "flag", {}, Dtype::boolean);
  const auto with = [&](Value condition, Value gate) {
    return [&, condition, gate] { (void)conditional_update("apply_sgd", c.inputs, {}, {condition, gate}); };
  };
  EXPECT_THAT(with(number, {}), ThrowsMessage<ArgumentError>(HasSubstr("wanted bool[]")));
  EXPECT_THAT(with({}, flags), ThrowsMessage<ArgumentError>(HasSubstr("the gate is bool[2]")));
  // A condition chooses what is executed: it must be known before.
  const Value computed = graph.add_node("equal", {number, number}, {}, "computed").output();
  EXPECT_THAT(with(computed, {}), ThrowsMessage<ArgumentError>(HasSubstr("placeholder or constant")));
  EXPECT_NO_THROW(with(flag, computed)());
}

TEST(Accumulated, BeginsWithTheFirstGradientAndAddsTheOthers) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{40003}}) {
    for (const std::int64_t micro_batch : {0, 1, 7}) {
      Graph graph;
      const Value sum = variable("sum", fill(graph, shape, 0)), x = placeholder(graph, "x", shape);
      const Value index = variable("index", fill(graph, {}, 0, Dtype::i64));
      Feeds feeds;
      // What lies there from the update before does not count, not even where it is NaN.
      HostTensor before = bumpy(shape, 1);
      if (micro_batch == 0 && !before.values<float>().empty()) before.values<float>()[0] = std::nanf("");
      feeds.emplace(sum, std::move(before));
      feeds.emplace(x, bumpy(shape, 2));
      feeds.emplace(index, HostTensor::scalar(micro_batch));
      const HostTensor y = std::move(run_kernels({accumulated(sum, x, index)}, feeds)[0]);
      for (std::size_t i = 0; i < y.values<float>().size(); ++i) {
        const float of_x = feeds.at(x).values<float>()[i], of_sum = feeds.at(sum).values<float>()[i];
        ASSERT_EQ(y.values<float>()[i], micro_batch == 0 ? of_x : of_sum + of_x);
      }
    }
  }
}

TEST(Accumulated, OfOtherTypesIsRefused) {
  Graph graph;
  const Value sum = variable("sum", fill(graph, {2}, 0)), index = variable("index", fill(graph, {}, 0, Dtype::i64));
  EXPECT_THROW(accumulated(sum, placeholder(graph, "x", {3}), index), ShapeError);
  EXPECT_THROW(accumulated(sum, placeholder(graph, "x", {2}), sum), ArgumentError);
  EXPECT_THROW(accumulated(sum, placeholder(graph, "x", {2}, Dtype::bf16), index), ArgumentError);
}

}  // namespace
}  // namespace sectionflow
