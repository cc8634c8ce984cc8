#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tests/support/op_case.h"

namespace sectionflow::testing_support {

// A graph evaluated in double, element by element: what its f32 kernels and gradients are compared with.

/// The elements of values, whatever their dtype.
using DoubleFeeds = std::map<Value, Doubles>;

/// Computes `fetches` from `feeds`, which may give any values of the graph in the place of what computes them: a
/// stop_gradient at the point where a difference is taken, for one. All shapes must be known.
/// Knows the operations that users call, and none that gradient rules alone make: a reference does not lean on what it
/// is to judge. Throws: ArgumentError naming an operation that it does not know.
std::vector<Doubles> evaluate_in_double(const std::vector<Value>& fetches, DoubleFeeds feeds);

/// What a reference of an operation sees: its node and the elements of its inputs.
struct DoubleRequest {
  Node& node;
  std::vector<const Doubles*> inputs;

  const Doubles& in(std::size_t index) const { return *inputs[index]; }
  const Shape& shape(std::size_t index) const { return node.inputs()[index].shape(); }
  const Shape& y_shape() const { return node.output_types()[0].shape; }
  std::size_t y_count() const { return static_cast<std::size_t>(y_shape().num_elements()); }
};
/// Gives the elements of each output.
using DoubleRule = std::function<std::vector<Doubles>(const DoubleRequest&)>;
using DoubleRules = std::map<std::string, DoubleRule>;

void add_elementwise_double_rules(DoubleRules& rules);
void add_moving_double_rules(DoubleRules& rules);
void add_layer_double_rules(DoubleRules& rules);

}  // namespace sectionflow::testing_support
