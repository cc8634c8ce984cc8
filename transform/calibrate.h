#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/export.h"
#include "data/dataset.h"
#include "runtime/session.h"
#include "transform/inference_graph.h"

namespace SF_API sectionflow {

/// How the range of a tensor is found from its values x over all batches. By `min_max` it holds them all; the others
/// cut off what lies beyond a threshold t: the range is from max(min x, -t) to min(max x, t).
enum class CalibrationMethod {
  min_max,
  /// t is the least, to 1/2048 of the largest |x|, such that |x| <= t holds for so many percent of the values.
  /// Source: Wu et al. 2020, Integer Quantization for Deep Learning Inference, 3.3.
  percentile,
  /// t is that whose distribution of |x| in 8 bits differs least from the one that was found, by the divergence of
  /// Kullback and Leibler; zeros, which 8 bits hold exactly, do not count. Source: Migacz 2017, 8-bit Inference with
  /// TensorRT.
  entropy,
};

/// The method of that name: "min_max". Throws: ArgumentError with the nearest.
CalibrationMethod calibration_method(std::string_view name);

/// What calibrate finds, and what it may take for it.
struct CalibrationOptions {
  CalibrationMethod method = CalibrationMethod::min_max;
  double percentile = 99.99;     ///< of the method `percentile`: above 0, at most 100
  std::int64_t max_batches = 0;  ///< so many from the beginning; 0: all
  /// From which tensor of the batches a placeholder is fed, both by name: {{"images", "image"}}. A placeholder that is
  /// not listed is fed from the tensor of its own name. Tensors that feed nothing are left out.
  std::map<std::string, std::string> tensors{};
  /// Host memory for tensors that are looked at in one run. Where a batch has more, it is run several times, and one
  /// tensor at a time may take as much as it has.
  std::size_t host_memory = std::size_t{256} << 20;
  /// Of the session that runs the graph: device and budgets. Values are checked whatever it says of that.
  SessionOptions session{};
};

/// The ranges of all f32 and bf16 tensors that the outputs need and that follow from what is fed, as they are over the
/// batches of a data set, which must end with batch():
///
///   frozen.ranges = calibrate(frozen, samples.batch({.size = 50}), {.method = CalibrationMethod::entropy});
///
/// Tensors within branches are left out, and those whose ranges the graph has already, such as take_ranges gives them,
/// keep these. The same batches give the same ranges on the same device with as many
/// threads. The batches are read twice where values are cut off. Host memory besides: 20 KiB a tensor.
/// Throws: ArgumentError for options outside their range, a placeholder that no tensor feeds, a data set without an end
/// or without a batch (SF-E603), and NaN or infinity in a tensor (SF-E605), naming it and its node; BudgetError and
/// what the data set throws.
ValueRanges calibrate(const InferenceGraph& graph, const Dataset& batches, const CalibrationOptions& options = {},
                      Where where = Where::here());

}  // namespace sectionflow
