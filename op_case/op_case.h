#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/export.h"
#include "base/host_tensor.h"
#include "device/device.h"
#include "graph/graph.h"
#include "op_case/tolerance.h"

namespace SF_API sectionflow {

/// Checks of operations, the library's own and others: link sectionflow::op_case.
namespace op_cases {

/// The elements of a tensor in row-major order.
using Doubles = std::vector<double>;

/// One input of an op case: its type, and where its values come from.
struct CaseInput {
  TensorType type;
  double low = -1, high = 1;     ///< uniform; integers inclusive
  double away_from_zero = 0;     ///< values are at least this far from 0 (kinks: relu, division)
  bool distinct = false;         ///< values differ by at least (high - low) / (2 count) (maxima)
  bool differentiable = true;    ///< f32 and bf16 inputs only; others never are
  bool has_batch = true;         ///< its first dimension is the batch: see OpCase::dynamic_batch
  std::vector<double> values{};  ///< taken as they stand where not empty
};

/// An f32 input of values in [low, high).
inline CaseInput input(Shape shape, double low = -1, double high = 1) {
  return {.type = {Dtype::f32, std::move(shape)}, .low = low, .high = high};
}
/// The same for parameters, whose shape is known whatever the batch.
inline CaseInput parameter(Shape shape, double low = -1, double high = 1) {
  return {.type = {Dtype::f32, std::move(shape)}, .low = low, .high = high, .has_batch = false};
}
/// A boolean scalar, such as is_training.
inline CaseInput boolean_input(bool value) {
  return {.type = {Dtype::boolean, {}}, .values = {value ? 1.0 : 0.0}};
}

/// An op under one set of shapes and options, with everything that is asked of it. One line in a table.
struct OpCase {
  std::string name;  ///< letters, digits and underscores: part of a test's name
  std::vector<CaseInput> inputs;
  /// Builds the op on placeholders, one an input; returns what is compared.
  std::function<std::vector<Value>(Graph&, const std::vector<Value>&)> build;
  /// The same results in double, as plain as can be; shapes are known to the case.
  std::function<std::vector<Doubles>(const std::vector<Doubles>&)> reference;

  Tolerance tolerance{};  ///< of the outputs
  /// Of the directional derivative sum_i dx_i v_i: `relative` to sum |dx_i v_i|, `absolute` to sum |v_i|.
  Tolerance gradient_tolerance{.relative = 32, .absolute = 32};
  double step = 1e-5;                       ///< of the central difference
  std::vector<int> gradient_outputs = {0};  ///< outputs whose gradient is checked; empty: none
  bool dynamic_batch = false;               ///< placeholders of inputs with a batch leave their first dimension open
  bool same_bits_for_any_threads = false;   ///< own loops promise it; oneDNN does not
};

/// The case in bf16: `inputs`, or, where none are named, all that are f32. Their values are rounded before the
/// reference sees them. Each output and each gradient may err by one rounding to bf16 more than in f32; gradients that
/// are computed from a rounded output by `gradient_slack` times 2^-8 sum |v_i| besides.
OpCase in_bf16(OpCase op_case, std::vector<std::size_t> inputs = {}, double gradient_slack = 0);

/// Checks with random inputs what an operation promises; one text a failure, with the seed, and none where all is well.
/// The environment's SECTIONFLOW_TEST_SEED sets another seed.
/// - Forward equals the reference, on two threads and on one.
/// - Unless an output is empty, the gradient of loss = sum(y * r) for a random r, along one random direction of all
///   differentiable inputs, equals the central difference of the reference.
/// - Outputs and gradients have the same bits when repeated, on dirty workspace, at other addresses, in place,
///   executed again as by a recomputation, and where bf16 runs through f32; on the CPU also in parts, in the fewest and
///   the most that OpDef::parts of each node allows.
/// - No kernel writes beside its outputs and workspace, nor changes an input or an output that is kept.
/// - The graph, gradient included, is the same after it was saved and loaded.
/// Throws: what build and reference throw; ArgumentError for a case that asks for what cannot be; DeviceError where
/// there is no such device.
std::vector<std::string> failures_of(const OpCase& op_case, const DeviceSpec& device = cpu());

}  // namespace op_cases
}  // namespace sectionflow
