#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "base/shape.h"
#include "graph/ops/ctc_loss.h"
#include "kernels/formulas/ctc_loss.h"
#include "kernels/kernel.h"

// What the kernels of ctc_loss see, on every device.
namespace sectionflow {

/// Class numbers or lengths, i32 or i64.
struct WholeNumbers {
  const void* values;
  bool is_wide;

  SF_HOST_DEVICE std::int64_t operator[](std::int64_t i) const {
    return is_wide ? static_cast<const std::int64_t*>(values)[i] : static_cast<const std::int32_t*>(values)[i];
  }
};

/// Sizes of a batch. An example of n labels goes through 2 n + 1 states: blank, label, blank, ..., label, blank.
struct CtcSizes {
  CtcSizes(const Shape& logits, const Shape& labels, const CtcLossOptions& options)
      : examples(logits[0]),
        steps(logits[1]),
        classes(logits[2]),
        labels(labels[1]),
        stride(2 * labels[1] + 5),
        blank(options.blank),
        zero_infinity(options.zero_infinity) {}

  std::int64_t examples, steps, classes, labels;  // N, T, C, S
  std::int64_t stride;                            // floats of a row of states, with two that are never reached around
  std::int64_t blank;
  bool zero_infinity;
};

/// One example: its labels, and the states that they make.
struct CtcExample {
  WholeNumbers all_labels;
  std::int64_t first_label;        // in all_labels
  std::int64_t steps, num_labels;  // as told
  std::int64_t blank;

  SF_HOST_DEVICE std::int64_t states() const { return 2 * num_labels + 1; }
  SF_HOST_DEVICE std::int64_t label(std::int64_t i) const { return all_labels[first_label + i]; }
  SF_HOST_DEVICE std::int64_t class_of(std::int64_t state) const { return state % 2 == 0 ? blank : label(state / 2); }
  /// Whether a step may come to the state from the one before the last: over a blank that need not be there.
  SF_HOST_DEVICE bool may_skip(std::int64_t state) const {
    return state % 2 == 1 && state >= 3 && label(state / 2) != label(state / 2 - 1);
  }
  SF_HOST_DEVICE bool has_lengths_in(const CtcSizes& sizes) const {
    return steps >= 0 && steps <= sizes.steps && num_labels >= 0 && num_labels <= sizes.labels;
  }
  SF_HOST_DEVICE bool has_label(std::int64_t i, const CtcSizes& sizes) const {
    const std::int64_t found = label(i);
    return found >= 0 && found < sizes.classes && found != blank;
  }
};

/// A batch as one execution has it.
struct CtcBatch {
  CtcSizes sizes;
  const float *x, *statistics;  // [N, T, C]; [N, T, 2]: the largest of a step, ln sum e^(x - largest)
  WholeNumbers labels, input_lengths, label_lengths;

  SF_HOST_DEVICE CtcExample example(std::int64_t n) const {
    return {labels, n * sizes.labels, input_lengths[n], label_lengths[n], sizes.blank};
  }
  /// The logarithm of the probability of a class at step t of example n.
  SF_HOST_DEVICE float log_p(std::int64_t n, std::int64_t t, std::int64_t c) const {
    const std::int64_t row = n * sizes.steps + t;
    return formulas::ctc_log_p(x[row * sizes.classes + c], statistics[2 * row], statistics[2 * row + 1]);
  }
};

/// What a request tells of it; logits, labels and lengths are the inputs from `first` on.
struct CtcInputs {
  CtcInputs(const KernelRequest& request, std::size_t first)
      : sizes(request.inputs[first].shape, request.inputs[first + 1].shape, request.node.options<CtcLossOptions>()),
        first(first) {
    for (std::size_t i = 0; i < 3; ++i) is_wide[i] = request.inputs[first + 1 + i].dtype == Dtype::i64;
  }

  CtcBatch batch(const KernelArguments& arguments, const void* statistics) const {
    const auto numbers = [&](std::size_t i) { return WholeNumbers{arguments.inputs[first + 1 + i], is_wide[i]}; };
    return {sizes,
            static_cast<const float*>(arguments.inputs[first]),
            static_cast<const float*>(statistics),
            numbers(0),
            numbers(1),
            numbers(2)};
  }
  /// Of `rows` rows of states an example.
  std::size_t workspace_bytes(std::int64_t rows) const {
    return static_cast<std::size_t>(sizes.examples * rows * sizes.stride) * sizeof(float);
  }

  CtcSizes sizes;
  std::size_t first;
  bool is_wide[3];
};

}  // namespace sectionflow
