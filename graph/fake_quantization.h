#pragma once

#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/fake_quantize.h"

namespace SF_API sectionflow {

/// How the range of what a layer is given is found while it trains.
enum class RangeKind {
  /// By moving averages of the least and of the largest value of each batch, as batch_norm has them of mean and
  /// variance: `<layer>/input_range/minimum` and `.../maximum`, and `.../weight`, by which they are divided so that the
  /// zeros which they begin with do not count. A step rounds by the averages before it. A batch is what runs at a time:
  /// of a step in micro-batches each moves the averages, which so many smaller ones than the whole have moved then.
  moving,
  /// By a variable that is trained, `<layer>/input_range/limit`: up to it from 0, or from its negative where the moving
  /// average of the least value is below 0.
  learned
};

/// What FakeQuantization does in its layers.
struct FakeQuantizationOptions {
  RangeKind ranges = RangeKind::moving;
  float decay = 0.99F;  ///< of moving averages; 0 to 1
  /// Above 0. Of learned ranges the limit at first; of moving ones the range, to both sides, in the first step.
  float initial_limit = 6;
};

/// While it lives, layers train for 8 bits: dense and the convolutions round the input and the kernel that they
/// multiply to what 8 bits hold (fake_quantize), the input by one range, found as the options say, the kernel by one a
/// channel, which is as wide as its values, to both sides. Their bias, and what transposed convolutions do, stays as it
/// is. Ranges are in f32; beside a MixedPrecision values are rounded in bf16 after that. `take_ranges`
/// (docs/inference.md) makes of a frozen graph one without, which has the ranges instead. Scopes nest.
///
///     const FakeQuantization eight_bits(graph, {.ranges = RangeKind::learned});
///     Value x = relu(conv2d(images, {.features = 64}));
class [[nodiscard]] FakeQuantization {
 public:
  /// Throws: ArgumentError for options outside their range.
  explicit FakeQuantization(Graph& graph, const FakeQuantizationOptions& options = {}, Where where = Where::here());

 private:
  GraphScope scope_;
};

/// What a layer multiplies.
struct LayerOperands {
  Value x, kernel;
};
/// `x` and `kernel`, of shape [..., channels], as a layer of one's own should multiply them: in the dtype in which
/// layers compute, and, with `may_round` and where a FakeQuantization is open, rounded. Makes the variables of the
/// range below the current name scope.
LayerOperands layer_operands(Value x, Value kernel, bool may_round = true);

}  // namespace sectionflow
