#include "graph/ops/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "graph/nodes/softmax.h"
#include "kernels/cpu/lines_ahead.h"
#include "kernels/cpu/rows.h"
#include "kernels/formulas/softmax.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/softmax_cross_entropy_family.h"
#include "kernels/stored_element.h"
#include "kernels/vector_math.h"

namespace sectionflow {
namespace {

// A row is read from memory once: the later passes over it find it in the cache.

// Rows are stored as T; a result may lie over what it is made of.

/// For row_sum: asks for the next row of x, which is `length` behind this one, and for this one of y; but for no rows
/// so long that second-level caches would not keep them until they are read.
template <class T>
auto asking_for_rows(const T* y, const T* x, std::int64_t length) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 18;
  const bool asks = length * static_cast<std::int64_t>(sizeof(T)) <= kMostBytes;
  // What is in the cache takes no time to ask for, where a branch in the loop would.
  return [next = asks ? x + length : x, written = asks ? y : x](std::int64_t i, std::int64_t number) {
    ask_for_lines(next + i, number);
    ask_for_lines(written + i, number);
  };
}

template <class T>
void softmax_row(T* y, const T* x, std::int64_t length) {
  const float shift = row_max(x, length);  // keeps exp finite
  if constexpr (std::is_same_v<T, float>) {
    const auto power = [=](std::int64_t i) { return y[i] = vector_math::exp(x[i] - shift); };
    const double sum = row_sum(length, power, asking_for_rows(y + length, x, length));
    const float scale = static_cast<float>(1.0 / sum);
#pragma omp simd
    for (std::int64_t i = 0; i < length; ++i) y[i] = y[i] * scale;
  } else {
    // Powers that were stored would be rounded twice: they are taken again.
    const auto power = [=](std::int64_t i) { return vector_math::exp(x[i] - shift); };
    const double sum = row_sum(length, power, asking_for_rows(y, x, length));
    const float scale = static_cast<float>(1.0 / sum);
#pragma omp simd
    for (std::int64_t i = 0; i < length; ++i) y[i] = stored<T>(vector_math::exp(x[i] - shift) * scale);
  }
}

template <class T>
void log_softmax_row(T* y, const T* x, std::int64_t length) {
  const float shift = row_max(x, length);
  const auto power = [=](std::int64_t i) { return vector_math::exp(x[i] - shift); };
  const double sum = row_sum(length, power, asking_for_rows(y, x, length));
  const float log_sum = static_cast<float>(std::log(sum));
#pragma omp simd
  for (std::int64_t i = 0; i < length; ++i) y[i] = stored<T>((x[i] - shift) - log_sum);
}

template <class T>
void softmax_grad_row(T* dx, const T* dy, const T* y, std::int64_t length) {
  const float mean = static_cast<float>(
      row_sum(length, [=](std::int64_t i) { return static_cast<float>(dy[i]) * static_cast<float>(y[i]); }));
#pragma omp simd
  for (std::int64_t i = 0; i < length; ++i) dx[i] = stored<T>(y[i] * (dy[i] - mean));
}

template <class T>
void log_softmax_grad_row(T* dx, const T* dy, const T* y, std::int64_t length) {
  const float sum = static_cast<float>(row_sum(length, [=](std::int64_t i) { return static_cast<float>(dy[i]); }));
#pragma omp simd
  for (std::int64_t i = 0; i < length; ++i) dx[i] = stored<T>(dy[i] - vector_math::exp(y[i]) * sum);
}

/// The rows of a tensor [..., C].
struct SoftmaxRows {
  explicit SoftmaxRows(const Shape& shape)
      : length(shape[-1]), count(length == 0 ? 0 : shape.num_elements() / length) {}
  std::int64_t length, count;
};

template <class T>
using OfOneRow = void (*)(T* y, const T* x, std::int64_t length);
template <class T>
using OfTwoRows = void (*)(T* dx, const T* dy, const T* y, std::int64_t length);

template <class T, OfOneRow<T> kRow>
std::unique_ptr<Kernel> rows_kernel(const SoftmaxRows& rows) {
  return function_kernel(
      [rows](const KernelArguments& arguments) {
        const auto* x = static_cast<const T*>(arguments.inputs[0]);
        auto* y = static_cast<T*>(arguments.outputs[0]);
        for_each_row(rows.count, rows.length,
                     [=, length = rows.length](std::int64_t n) { kRow(y + n * length, x + n * length, length); });
      },
      {.in_place = {{0, 0}}});
}
template <OfOneRow<float> kRow, OfOneRow<BFloat16> kRowOfBf16>
std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) {
  const SoftmaxRows rows(request.outputs[0].shape);
  const bool is_bf16 = request.outputs[0].dtype == Dtype::bf16;
  return is_bf16 ? rows_kernel<BFloat16, kRowOfBf16>(rows) : rows_kernel<float, kRow>(rows);
}

template <class T, OfTwoRows<T> kRow>
std::unique_ptr<Kernel> gradient_kernel(const SoftmaxRows& rows) {
  return function_kernel(
      [rows](const KernelArguments& arguments) {
        const auto* dy = static_cast<const T*>(arguments.inputs[0]);
        const auto* y = static_cast<const T*>(arguments.inputs[1]);
        auto* dx = static_cast<T*>(arguments.outputs[0]);
        for_each_row(rows.count, rows.length, [=, length = rows.length](std::int64_t n) {
          kRow(dx + n * length, dy + n * length, y + n * length, length);
        });
      },
      {.in_place = {{0, 0}, {1, 0}}});
}
template <OfTwoRows<float> kRow, OfTwoRows<BFloat16> kRowOfBf16>
std::unique_ptr<Kernel> make_gradient(const KernelRequest& request) {
  const SoftmaxRows rows(request.outputs[0].shape);
  const bool is_bf16 = request.outputs[0].dtype == Dtype::bf16;
  return is_bf16 ? gradient_kernel<BFloat16, kRowOfBf16>(rows) : gradient_kernel<float, kRow>(rows);
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Sizes {
  std::int64_t num_rows, num_classes;
  float smoothing;
};
Sizes sizes_of(const KernelRequest& request, const Shape& logits) {
  return {logits[0], logits[1], request.node.options<SoftmaxCrossEntropyNodeOptions>().label_smoothing};
}

using RowStatistics = formulas::EntropyRow;
using formulas::weighted;

template <class T>
RowStatistics statistics_of(const T* x, std::int64_t num_classes) {
  const float shift = row_max(x, num_classes);  // keeps exp finite
  const double sum = row_sum(num_classes, [=](std::int64_t c) { return vector_math::exp(x[c] - shift); });
  return {shift, static_cast<float>(std::log(sum))};
}

/// The rows' labels: class numbers, or probabilities.
template <class Label, bool kHasWeights>
class Targets {
 public:
  static constexpr bool kIsClass = std::is_integral_v<Label>;

  Targets(const Sizes& sizes, const void* labels, const void* weights)
      : labels_(static_cast<const Label*>(labels)),
        num_classes_(sizes.num_classes),
        counts_{static_cast<const float*>(weights), 1.0F - sizes.smoothing,
                sizes.smoothing / static_cast<float>(sizes.num_classes)} {
    if (counts_.spread == 0) return;
    total_spread_ =
        counts_.spread * row_sum(num_classes_, [counts = counts_](std::int64_t c) { return counts.weight(c); });
  }

  template <class T>
  float loss(const T* x, RowStatistics row, std::int64_t n) const {
    const formulas::ClassCounts<kHasWeights> counts = counts_;
    if constexpr (kIsClass) {
      if (!is_valid(n)) return kNaN;
      const float q = at_label(n);
      double expected = weighted(q, x[labels_[n]] - row.shift);
      if (counts.spread > 0) {
        const auto term = [=](std::int64_t c) { return weighted(counts.weight(c), x[c] - row.shift); };
        expected += counts.spread * row_sum(num_classes_, term);
      }
      return static_cast<float>((q + total_spread_) * row.log_sum - expected);
    } else {
      const float* p = labels_ + n * num_classes_;
      const auto term = [=](std::int64_t c) { return weighted(counts.of_probability(p, c), x[c] - row.shift); };
      return static_cast<float>(total(p) * row.log_sum - row_sum(num_classes_, term));
    }
  }

  /// dx = dloss (sum_k q_k softmax(x) - q), which may lie over x or the labels.
  template <class T>
  void gradient(T* dx, const T* x, RowStatistics row, float dloss, std::int64_t n) const {
    const formulas::ClassCounts<kHasWeights> counts = counts_;
    const std::int64_t num_classes = num_classes_;
    const float reciprocal = static_cast<float>(std::exp(-static_cast<double>(row.log_sum)));
    if constexpr (kIsClass) {
      if (!is_valid(n)) {
        std::fill(dx, dx + num_classes, stored<T>(kNaN));
        return;
      }
      const float q = at_label(n);
      const float scale = static_cast<float>(q + total_spread_) * reciprocal;
      const auto at = [=](std::int64_t c) { return counts.slope(x[c], row.shift, scale, c); };
      const float dx_of_label = dloss * (at(labels_[n]) - q);  // before x is overwritten
#pragma omp simd
      for (std::int64_t c = 0; c < num_classes; ++c) dx[c] = stored<T>(dloss * at(c));
      dx[labels_[n]] = stored<T>(dx_of_label);
    } else {
      const float* p = labels_ + n * num_classes_;
      const float scale = static_cast<float>(total(p)) * reciprocal;
#pragma omp simd
      for (std::int64_t c = 0; c < num_classes; ++c) {
        dx[c] = stored<T>(dloss * counts.slope_of_probability(x[c], row.shift, scale, p, c));
      }
    }
  }

 private:
  bool is_valid(std::int64_t n) const {
    return labels_[n] >= 0 && static_cast<std::int64_t>(labels_[n]) < num_classes_;
  }
  /// What the label's class counts beyond the spread.
  float at_label(std::int64_t n) const {
    return counts_.kept * counts_.weight(labels_[n]);
  }
  double total(const float* p) const {
    return row_sum(num_classes_, [p, counts = counts_](std::int64_t c) { return counts.of_probability(p, c); });
  }

  const Label* labels_;  // [N] or [N, C]
  std::int64_t num_classes_;
  formulas::ClassCounts<kHasWeights> counts_;
  double total_spread_ = 0;  // s / C sum_c w_c
};

/// The kernels as loops over rows.
struct LoopPasses {
  template <class T, class Label, bool kHasWeights>
  static std::unique_ptr<Kernel> forward(const KernelRequest& request) {
    const Sizes sizes = sizes_of(request, request.inputs[0].shape);
    return function_kernel([sizes, replay = request.replay](const KernelArguments& arguments) {
      const auto* logits = static_cast<const T*>(arguments.inputs[0]);  // [N, C]
      const Targets<Label, kHasWeights> target(sizes, arguments.inputs[1], kHasWeights ? arguments.inputs[2] : nullptr);
      auto* loss = static_cast<float*>(arguments.outputs[0]);        // [N]
      auto* statistics = static_cast<float*>(arguments.outputs[1]);  // [N, 2]
      for_each_row(sizes.num_rows, sizes.num_classes, [&](std::int64_t n) {
        const T* x = logits + n * sizes.num_classes;
        if (!replay) {
          const RowStatistics row = statistics_of(x, sizes.num_classes);
          statistics[2 * n] = row.shift;
          statistics[2 * n + 1] = row.log_sum;
        }
        loss[n] = target.loss(x, {statistics[2 * n], statistics[2 * n + 1]}, n);
      });
    });
  }

  template <class T, class Label, bool kHasWeights>
  static std::unique_ptr<Kernel> gradient(const KernelRequest& request) {
    const Sizes sizes = sizes_of(request, request.inputs[2].shape);
    std::vector<InPlace> in_place = {{2, 0}};
    if constexpr (!Targets<Label, kHasWeights>::kIsClass) in_place.push_back({3, 0});
    return function_kernel(
        [sizes](const KernelArguments& arguments) {
          const auto* dloss = static_cast<const float*>(arguments.inputs[0]);       // [N]
          const auto* statistics = static_cast<const float*>(arguments.inputs[1]);  // [N, 2]
          const auto* logits = static_cast<const T*>(arguments.inputs[2]);          // [N, C]
          const Targets<Label, kHasWeights> target(sizes, arguments.inputs[3],
                                                   kHasWeights ? arguments.inputs[4] : nullptr);
          auto* dx = static_cast<T*>(arguments.outputs[0]);  // [N, C]
          for_each_row(sizes.num_rows, sizes.num_classes, [&](std::int64_t n) {
            const std::int64_t first = n * sizes.num_classes;
            target.gradient(dx + first, logits + first, {statistics[2 * n], statistics[2 * n + 1]}, dloss[n], n);
          });
        },
        {.in_place = std::move(in_place)});
  }
};

}  // namespace

void add_softmax_cpu_kernels(KernelRegistry& registry) {
  registry.add("softmax", make_softmax<softmax_row<float>, softmax_row<BFloat16>>, Bf16::native);
  registry.add("softmax_grad", make_gradient<softmax_grad_row<float>, softmax_grad_row<BFloat16>>, Bf16::native);
  registry.add("log_softmax", make_softmax<log_softmax_row<float>, log_softmax_row<BFloat16>>, Bf16::native);
  registry.add("log_softmax_grad", make_gradient<log_softmax_grad_row<float>, log_softmax_grad_row<BFloat16>>,
               Bf16::native);
  SoftmaxCrossEntropyFamily<LoopPasses>::add_to(registry);
}

}  // namespace sectionflow
