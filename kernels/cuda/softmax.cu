#include <cmath>
#include <limits>
#include <type_traits>

#include "graph/nodes/softmax.h"
#include "graph/ops/softmax.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/row_teams.h"
#include "kernels/formulas/softmax.h"
#include "kernels/function_kernel.h"
#include "kernels/softmax_cross_entropy_family.h"
#include "kernels/vector_math.h"

namespace sectionflow {
namespace {

/// y = e^(x - m) / sum, or x - m - ln sum, m the largest of the row; y may be x.
template <class T, bool kLog>
struct Softmax {
  gpu::RowTeams rows;
  const T* x;
  T* y;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    gpu::RowTeam<Thread> team(thread, rows);
    for (std::int64_t n = team.first_row(); n < rows.count; n += team.row_step()) {
      const auto row = team.row(x, n);
      const auto of_row = team.exponentials(row);
      const float shift = of_row.shift;
      const float scale = static_cast<float>(1.0 / of_row.sum), log_sum = static_cast<float>(std::log(of_row.sum));
      const auto value = [=](std::int64_t, float x_c) {
        return kLog ? (x_c - shift) - log_sum : vector_math::exp(x_c - shift) * scale;
      };
      team.map(team.row(y, n), value, row);
    }
  }
};

/// dx = y (dy - sum dy y), or dy - e^y sum dy; it may be dy or y.
template <class T, bool kLog>
struct SoftmaxGrad {
  gpu::RowTeams rows;
  const T *dy, *y;
  T* dx;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    gpu::RowTeam<Thread> team(thread, rows);
    for (std::int64_t n = team.first_row(); n < rows.count; n += team.row_step()) {
      const auto slope = team.row(dy, n), row = team.row(y, n);
      const auto term = [](std::int64_t, float dy_c, float y_c) { return kLog ? dy_c : dy_c * y_c; };
      const auto sum = static_cast<float>(team.sum(term, slope, row));
      const auto value = [=](std::int64_t, float dy_c, float y_c) {
        return kLog ? dy_c - vector_math::exp(y_c) * sum : y_c * (dy_c - sum);
      };
      team.map(team.row(dx, n), value, slope, row);
    }
  }
};

template <bool kLog>
std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel(
        [rows = gpu::RowTeams(request.outputs[0].shape)](const KernelArguments& arguments) {
          gpu::launch_blocks(arguments.queue, rows.launch_shape(),
                             Softmax<T, kLog>{rows, static_cast<const T*>(arguments.inputs[0]),
                                              static_cast<T*>(arguments.outputs[0])});
        },
        {.in_place = {{0, 0}}});
  });
}

template <bool kLog>
std::unique_ptr<Kernel> make_softmax_grad(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel(
        [rows = gpu::RowTeams(request.outputs[0].shape)](const KernelArguments& arguments) {
          gpu::launch_blocks(
              arguments.queue, rows.launch_shape(),
              SoftmaxGrad<T, kLog>{rows, static_cast<const T*>(arguments.inputs[0]),
                                   static_cast<const T*>(arguments.inputs[1]), static_cast<T*>(arguments.outputs[0])});
        },
        {.in_place = {{0, 0}, {1, 0}}});
  });
}

using formulas::EntropyRow;
using formulas::weighted;

/// The rows' labels: class numbers, or probabilities.
template <class Label, bool kHasWeights>
struct Targets {
  static constexpr bool kIsClass = std::is_integral_v<Label>;

  const Label* labels;  // [N] or [N, C]
  std::int64_t num_classes;
  formulas::ClassCounts<kHasWeights> counts;

  SF_HOST_DEVICE bool is_valid(std::int64_t n) const {
    return labels[n] >= 0 && static_cast<std::int64_t>(labels[n]) < num_classes;
  }
  /// What the label's class counts beyond the spread.
  SF_HOST_DEVICE float at_label(std::int64_t n) const { return counts.kept * counts.weight(labels[n]); }
  /// s / C sum_c w_c.
  template <class Team>
  SF_HOST_DEVICE double total_spread(Team& team) const {
    if (counts.spread == 0) return 0;
    if constexpr (!kHasWeights) return counts.spread * static_cast<double>(num_classes);
    return counts.spread * team.sum([of = counts](std::int64_t c) { return of.weight(c); });
  }
  /// sum_c q_c where labels are probabilities.
  template <class Team>
  SF_HOST_DEVICE double total(Team& team, const float* p) const {
    return team.sum([p, of = counts](std::int64_t c) { return of.of_probability(p, c); });
  }
};

/// A block or a warp a row: its loss and, but for a replay, its statistics.
template <class T, class Label, bool kHasWeights>
struct CrossEntropy {
  gpu::RowTeams rows;
  Targets<Label, kHasWeights> targets;
  const T* logits;
  float *loss, *statistics;  // [N], [N, 2]
  bool has_statistics;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    gpu::RowTeam<Thread> team(thread, rows);
    for (std::int64_t n = team.first_row(); n < rows.count; n += team.row_step()) {
      const auto x = team.row(logits, n);
      const EntropyRow row =
          has_statistics ? EntropyRow{statistics[2 * n], statistics[2 * n + 1]} : statistics_of(team, x);
      const float value = loss_of(team, x, row, n);
      if (team.lane() != 0) continue;
      loss[n] = value;
      if (has_statistics) continue;
      statistics[2 * n] = row.shift;
      statistics[2 * n + 1] = row.log_sum;
    }
  }

 private:
  template <class Team, class Row>
  SF_HOST_DEVICE EntropyRow statistics_of(Team& team, const Row& x) const {
    const auto [shift, sum] = team.exponentials(x);
    return {shift, static_cast<float>(std::log(sum))};
  }

  template <class Team, class Row>
  SF_HOST_DEVICE float loss_of(Team& team, const Row& x, EntropyRow row, std::int64_t n) const {
    const auto counts = targets.counts;
    if constexpr (Targets<Label, kHasWeights>::kIsClass) {
      if (!targets.is_valid(n)) return std::numeric_limits<float>::quiet_NaN();
      const float q = targets.at_label(n);
      double expected = weighted(q, x.begin[targets.labels[n]] - row.shift);
      if (counts.spread > 0)
        expected += counts.spread *
                    team.sum([=](std::int64_t c, float x_c) { return weighted(counts.weight(c), x_c - row.shift); }, x);
      return static_cast<float>((q + targets.total_spread(team)) * row.log_sum - expected);
    } else {
      const float* p = targets.labels + n * rows.length;
      const double total = targets.total(team, p);
      const double expected = team.sum(
          [=](std::int64_t c, float x_c) { return weighted(counts.of_probability(p, c), x_c - row.shift); }, x);
      return static_cast<float>(total * row.log_sum - expected);
    }
  }
};

/// dx = dloss (sum_k q_k softmax(x) - q), which may lie over x or the labels.
template <class T, class Label, bool kHasWeights>
struct CrossEntropyGrad {
  gpu::RowTeams rows;
  Targets<Label, kHasWeights> targets;
  const float *dloss, *statistics;
  const T* logits;
  T* dx;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    gpu::RowTeam<Thread> team(thread, rows);
    for (std::int64_t n = team.first_row(); n < rows.count; n += team.row_step()) {
      run(team, {statistics[2 * n], statistics[2 * n + 1]}, n);
    }
  }

 private:
  template <class Team>
  SF_HOST_DEVICE void run(Team& team, EntropyRow row, std::int64_t n) const {
    const auto x = team.row(logits, n);
    const auto result = team.row(dx, n);
    const float slope = dloss[n];
    const float reciprocal = static_cast<float>(std::exp(-static_cast<double>(row.log_sum)));
    const auto counts = targets.counts;
    if constexpr (Targets<Label, kHasWeights>::kIsClass) {
      const bool is_valid = targets.is_valid(n);
      const std::int64_t label = is_valid ? static_cast<std::int64_t>(targets.labels[n]) : 0;
      const float q = counts.kept * counts.weight(label);
      const float scale = static_cast<float>(q + targets.total_spread(team)) * reciprocal;
      const auto value = [=](std::int64_t c, float x_c) {
        const float part = counts.slope(x_c, row.shift, scale, c);
        return !is_valid ? std::numeric_limits<float>::quiet_NaN() : slope * (c == label ? part - q : part);
      };
      team.map(result, value, x);
    } else {
      const float* p = targets.labels + n * rows.length;
      const float scale = static_cast<float>(targets.total(team, p)) * reciprocal;
      const auto value = [=](std::int64_t c, float x_c) {
        return slope * counts.slope_of_probability(x_c, row.shift, scale, p, c);
      };
      team.map(result, value, x);
    }
  }
};

template <class Label, bool kHasWeights>
Targets<Label, kHasWeights> targets_of(const gpu::RowTeams& rows, float smoothing, const void* labels,
                                       const void* weights) {
  return {static_cast<const Label*>(labels),
          rows.length,
          {static_cast<const float*>(weights), 1.0F - smoothing, smoothing / static_cast<float>(rows.length)}};
}

float smoothing_of(const KernelRequest& request) {
  return request.node.options<SoftmaxCrossEntropyNodeOptions>().label_smoothing;
}

/// The kernels with a team of threads a row.
struct TeamPasses {
  template <class T, class Label, bool kHasWeights>
  static std::unique_ptr<Kernel> forward(const KernelRequest& request) {
    return function_kernel([rows = gpu::RowTeams(request.inputs[0].shape), smoothing = smoothing_of(request),
                            replay = request.replay](const KernelArguments& arguments) {
      const auto targets = targets_of<Label, kHasWeights>(rows, smoothing, arguments.inputs[1],
                                                          kHasWeights ? arguments.inputs[2] : nullptr);
      gpu::launch_blocks(arguments.queue, rows.launch_shape(),
                         CrossEntropy<T, Label, kHasWeights>{rows, targets, static_cast<const T*>(arguments.inputs[0]),
                                                             static_cast<float*>(arguments.outputs[0]),
                                                             static_cast<float*>(arguments.outputs[1]), replay});
    });
  }

  template <class T, class Label, bool kHasWeights>
  static std::unique_ptr<Kernel> gradient(const KernelRequest& request) {
    std::vector<InPlace> in_place = {{2, 0}};
    if constexpr (!Targets<Label, kHasWeights>::kIsClass) in_place.push_back({3, 0});
    return function_kernel(
        [rows = gpu::RowTeams(request.inputs[2].shape),
         smoothing = smoothing_of(request)](const KernelArguments& arguments) {
          const auto input = [&](int index) { return static_cast<const float*>(arguments.inputs[index]); };
          const auto targets = targets_of<Label, kHasWeights>(rows, smoothing, arguments.inputs[3],
                                                              kHasWeights ? arguments.inputs[4] : nullptr);
          gpu::launch_blocks(arguments.queue, rows.launch_shape(),
                             CrossEntropyGrad<T, Label, kHasWeights>{rows, targets, input(0), input(1),
                                                                     static_cast<const T*>(arguments.inputs[2]),
                                                                     static_cast<T*>(arguments.outputs[0])});
        },
        {.in_place = std::move(in_place)});
  }
};

}  // namespace

void add_softmax_cuda_kernels(KernelRegistry& registry) {
  registry.add("softmax", make_softmax<false>, Bf16::native);
  registry.add("softmax_grad", make_softmax_grad<false>, Bf16::native);
  registry.add("log_softmax", make_softmax<true>, Bf16::native);
  registry.add("log_softmax_grad", make_softmax_grad<true>, Bf16::native);
  SoftmaxCrossEntropyFamily<TeamPasses>::add_to(registry);
}

}  // namespace sectionflow
