#include "graph/fake_quantization.h"

#include <cmath>
#include <memory>
#include <utility>

#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/identities.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "graph/parameter.h"
#include "graph/shared_entry.h"

namespace sectionflow {
namespace {

struct Ends {
  Value minimum, maximum;
};

/// The moving averages of the ends of x's values; before the first step the initial limit to both sides.
Ends moving_ends(Value x, const FakeQuantizationOptions& options) {
  Graph& graph = x.graph();
  const InitializerRequest request{graph, {}};
  const auto average = [&](const char* name) { return parameter(name, zeros(), request, {.trainable = false}); };
  const Value weight = average("weight"), minimum = average("minimum"), maximum = average("maximum");
  // Averages from before the step, however many layers and sections read them.
  const Value has_any = greater(weight, constant(graph, 0.0F));
  const Value divisor = select(has_any, weight, 1.0F);
  const Ends ends{select(has_any, minimum / divisor, -options.initial_limit),
                  select(has_any, maximum / divisor, options.initial_limit)};
  if (replaces_variables(graph)) return ends;
  const auto update = [&](Value variable, Value of_batch) {
    graph.add_to_collection(kUpdateOperations, update_moving_average(variable, of_batch, options.decay));
  };
  update(weight, constant(graph, 1.0F));
  update(minimum, in_dtype(reduce_min(x), Dtype::f32));
  update(maximum, in_dtype(reduce_max(x), Dtype::f32));
  return ends;
}

Value rounded_input(Value x, const FakeQuantizationOptions& options) {
  Graph& graph = x.graph();
  const auto scope = graph.scope("input_range");
  const Ends moving = moving_ends(stop_gradient(x), options);
  if (options.ranges == RangeKind::moving) return fake_quantize(x, moving.minimum, moving.maximum);
  // A step may bring it below 0, where it counts by its magnitude and is trained like any.
  const Value limit =
      abs(parameter("limit", constant_initializer(static_cast<double>(options.initial_limit)), {graph, {}}));
  const Value is_signed = less(moving.minimum, constant(graph, 0.0F));
  return fake_quantize(x, select(is_signed, neg(limit), 0.0F), limit);
}

/// By a range that is as wide as the values of each channel.
Value rounded_kernel(Value kernel) {
  ReduceOptions all_but_last;
  for (int axis = 0; axis + 1 < kernel.shape().rank(); ++axis) all_but_last.axes.push_back(axis);
  const Value most = stop_gradient(reduce_max(abs(kernel), all_but_last));
  return fake_quantize(kernel, neg(most), most);
}

}  // namespace

FakeQuantization::FakeQuantization(Graph& graph, const FakeQuantizationOptions& options, Where where)
    : scope_(graph.build_at(where, [&] {
        SF_CHECK(options.decay >= 0 && options.decay <= 1, ArgumentError, "FakeQuantization: decay is ", options.decay,
                 "; wanted 0 to 1");
        SF_CHECK(std::isfinite(options.initial_limit) && options.initial_limit > 0, ArgumentError,
                 "FakeQuantization: initial_limit is ", options.initial_limit, "; wanted a finite number above 0");
        SF_CHECK(options.ranges == RangeKind::moving || options.ranges == RangeKind::learned, ArgumentError,
                 "FakeQuantization: ranges is number ", static_cast<int>(options.ranges), " of an enumeration of 2");
        return graph.enter_layer_rounding(std::make_shared<const FakeQuantizationOptions>(options));
      })) {}

LayerOperands layer_operands(Value x, Value kernel, bool may_round) {
  const Value input = in_layer_dtype(x);
  const auto rounding = x.graph().layer_rounding();
  if (!may_round || rounding == nullptr) return {input, in_dtype(kernel, input.dtype())};
  return {rounded_input(input, *rounding), in_dtype(rounded_kernel(kernel), input.dtype())};
}

}  // namespace sectionflow
