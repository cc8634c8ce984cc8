#include "graph/ops/ctc_loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "device/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/ctc_loss_batch.h"
#include "kernels/formulas/ctc_loss.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/vector_math.h"

// A thread takes whole examples. Sums over states are in logarithms, relative to the largest of their step: so those
// that matter are small numbers, which f32 holds well however many steps there are.

namespace sectionflow {
namespace {

using formulas::kCtcNever;

/// Lengths and labels are in their ranges.
bool is_valid(const CtcExample& example, const CtcSizes& sizes) {
  if (!example.has_lengths_in(sizes)) return false;
  for (std::int64_t i = 0; i < example.num_labels; ++i) {
    if (!example.has_label(i, sizes)) return false;
  }
  return true;
}

/// The states of an example step by step. Rows of states have two that are never reached before and behind them.
class CtcLattice {
 public:
  /// `skips`: a row, which is filled. `x` and `statistics`: of the example, [T, C] and [T, 2].
  CtcLattice(const CtcSizes& sizes, const CtcExample& example, const float* x, const float* statistics, float* skips)
      : sizes_(sizes), example_(example), x_(x), statistics_(statistics), skips_(skips) {
    std::fill_n(skips, sizes.stride, kCtcNever);
    for (std::int64_t s = 0; s < states(); ++s) {
      if (example.may_skip(s)) skips_[kBefore + s] = 0;
    }
  }

  std::int64_t states() const { return example_.states(); }

  /// Their logarithms of probabilities at step t.
  void emit(std::int64_t t, float* row) const {
    const float* x = x_ + t * sizes_.classes;
    const float shift = statistics_[2 * t], log_sum = statistics_[2 * t + 1];
    float* e = row + kBefore;
    const float blank = formulas::ctc_log_p(x[sizes_.blank], shift, log_sum);
    for (std::int64_t i = 0; i < example_.num_labels; ++i) {
      e[2 * i] = blank;
      e[2 * i + 1] = formulas::ctc_log_p(x[example_.label(i)], shift, log_sum);
    }
    e[states() - 1] = blank;
  }

  /// The first states may be blank or the first label.
  void begin(const float* emitted, float* row) const {
    std::fill_n(row, sizes_.stride, kCtcNever);
    for (std::int64_t s = 0; s < std::min<std::int64_t>(2, states()); ++s) {
      row[kBefore + s] = formulas::ctc_product(0, emitted[kBefore + s]);
    }
  }
  void advance(const float* previous, const float* emitted, float* row) const {
    const float *from = previous + kBefore, *e = emitted + kBefore, *skip = skips_ + kBefore;
    float* to = row + kBefore;
    fill_ends(row);
    const std::int64_t count = states();
#pragma omp simd
    for (std::int64_t s = 0; s < count; ++s) {
      to[s] = formulas::ctc_product(formulas::ctc_sum(from[s], from[s - 1], from[s - 2] + skip[s]), e[s]);
    }
  }

  /// The way back ends in the last blank or the last label, behind what step T - 1 emits.
  void end(float* row) const {
    std::fill_n(row, sizes_.stride, kCtcNever);
    std::fill(row + kBefore + std::max<std::int64_t>(0, states() - 2), row + kBefore + states(), 0.0F);
  }
  /// `next`: of the step behind, which emits `emitted`; it is overwritten by their products.
  void retreat(float* next, const float* emitted, float* row) const {
    const float *e = emitted + kBefore, *skip = skips_ + kBefore;
    float *from = next + kBefore, *to = row + kBefore;
    const std::int64_t count = states();
#pragma omp simd
    for (std::int64_t s = 0; s < count; ++s) from[s] = formulas::ctc_product(from[s], e[s]);
    fill_ends(row);
#pragma omp simd
    for (std::int64_t s = 0; s < count; ++s) {
      to[s] = formulas::ctc_sum(from[s], from[s + 1], from[s + 2] + skip[s + 2]);
    }
  }

  /// Goes through all steps, of which there is one at least: row t lies at rows + t % num_rows * stride. Gives the last
  /// row; `log_p` is what has been taken from all of it. `emitted`: a row.
  const float* go(float* rows, std::int64_t num_rows, float* emitted, double& log_p) const {
    float* row = rows;
    emit(0, emitted);
    begin(emitted, row);
    log_p = shift(row);
    for (std::int64_t t = 1; t < example_.steps; ++t) {
      const float* before = row;
      row = rows + t % num_rows * sizes_.stride;
      emit(t, emitted);
      advance(before, emitted, row);
      log_p += static_cast<double>(shift(row));
    }
    return row;
  }

  /// Makes the largest 0; returns what has been taken away.
  float shift(float* row) const {
    const float largest = row_max(row + kBefore, states());
    if (!(largest > 0.5F * kCtcNever)) return 0;
    const std::int64_t count = states();
#pragma omp simd
    for (std::int64_t s = 0; s < count; ++s) row[kBefore + s] -= largest;
    return largest;
  }

  /// The logarithm of what has come to the last label or the last blank.
  float arrived(const float* row) const {
    const float* last = row + kBefore + states() - 1;
    return formulas::ctc_sum(last[0], last[-1], kCtcNever);
  }

  /// Makes the posterior probabilities of a row of logarithms, which need not sum to 1.
  void to_posteriors(const float* there, const float* back, float* row) const {
    const std::int64_t count = states();
    float* q = row + kBefore;
#pragma omp simd
    for (std::int64_t s = 0; s < count; ++s) q[s] = there[kBefore + s] + back[kBefore + s];
    const float largest = row_max(q, count);
#pragma omp simd
    for (std::int64_t s = 0; s < count; ++s) q[s] = vector_math::exp(q[s] - largest);
    const auto scale = static_cast<float>(1.0 / row_sum(count, [q](std::int64_t s) { return q[s]; }));
#pragma omp simd
    for (std::int64_t s = 0; s < count; ++s) q[s] *= scale;
  }

  static constexpr std::int64_t kBefore = 2;

 private:
  void fill_ends(float* row) const {
    row[0] = row[1] = kCtcNever;
    row[kBefore + states()] = row[kBefore + states() + 1] = kCtcNever;
  }

  const CtcSizes& sizes_;
  const CtcExample& example_;
  const float *x_, *statistics_;
  float* skips_;
};

/// Losses, and unless they are there the statistics of each step.
struct CtcForward {
  CtcInputs inputs;
  bool has_statistics;

  static constexpr std::int64_t kRows = 4;  // skips, emitted, two of states

  void operator()(const KernelArguments& arguments) const {
    const CtcSizes& sizes = inputs.sizes;
    auto* losses = static_cast<float*>(arguments.outputs[0]);      // [N]
    auto* statistics = static_cast<float*>(arguments.outputs[1]);  // [N, T, 2]: largest, ln sum e^(x - largest)
    const CtcBatch batch = inputs.batch(arguments, statistics);
    parallel_for(sizes.examples, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const CtcExample example = batch.example(n);
        const bool counts = is_valid(example, sizes);
        const float* x = batch.x + n * sizes.steps * sizes.classes;
        float* of_steps = statistics + n * sizes.steps * 2;
        if (!has_statistics) write_statistics(x, counts ? example.steps : 0, of_steps);
        auto* rows = static_cast<float*>(arguments.workspace) + n * kRows * sizes.stride;
        losses[n] = counts ? loss(example, x, of_steps, rows) : std::numeric_limits<float>::quiet_NaN();
      }
    });
  }

 private:
  void write_statistics(const float* x, std::int64_t steps, float* statistics) const {
    const std::int64_t classes = inputs.sizes.classes;
    std::fill(statistics + 2 * steps, statistics + 2 * inputs.sizes.steps, 0.0F);
    for (std::int64_t t = 0; t < steps; ++t) {
      const float* row = x + t * classes;
      const float largest = row_max(row, classes);
      const double sum =
          row_sum(classes, [row, largest](std::int64_t c) { return vector_math::exp(row[c] - largest); });
      statistics[2 * t] = largest;
      statistics[2 * t + 1] = static_cast<float>(std::log(sum));
    }
  }

  float loss(const CtcExample& example, const float* x, const float* statistics, float* rows) const {
    const std::int64_t stride = inputs.sizes.stride;
    const float infinite = inputs.sizes.zero_infinity ? 0.0F : std::numeric_limits<float>::infinity();
    if (example.steps == 0) return example.num_labels == 0 ? 0.0F : infinite;
    const CtcLattice lattice(inputs.sizes, example, x, statistics, rows);
    double log_p = 0;
    const float last = lattice.arrived(lattice.go(rows + 2 * stride, 2, rows + stride, log_p));
    return formulas::ctc_is_never(last) ? infinite : static_cast<float>(-(log_p + static_cast<double>(last)));
  }
};

/// dx = dloss (softmax(x) - q), where q are the posterior probabilities of the classes; it may be the logits. Ways
/// there of all steps are computed first, then the ways back, step by step with dx.
struct CtcGradient {
  CtcInputs inputs;

  static constexpr std::int64_t kRows = 5;  // skips, emitted, posteriors, two of ways back; then T of ways there

  std::int64_t num_rows() const { return kRows + inputs.sizes.steps; }

  void operator()(const KernelArguments& arguments) const {
    const CtcSizes& sizes = inputs.sizes;
    const auto* dlosses = static_cast<const float*>(arguments.inputs[0]);  // [N]
    auto* slopes = static_cast<float*>(arguments.outputs[0]);              // like logits
    const CtcBatch batch = inputs.batch(arguments, arguments.inputs[1]);
    parallel_for(sizes.examples, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const CtcExample example = batch.example(n);
        const std::int64_t elements = sizes.steps * sizes.classes;
        const float *x = batch.x + n * elements, *statistics = batch.statistics + n * sizes.steps * 2;
        float *dx = slopes + n * elements,
              *rows = static_cast<float*>(arguments.workspace) + n * num_rows() * sizes.stride;
        if (!is_valid(example, sizes)) {
          std::fill_n(dx, elements, std::numeric_limits<float>::quiet_NaN());
          continue;
        }
        const std::int64_t used = example.steps * sizes.classes;
        if (example.steps > 0) run(example, dlosses[n], x, statistics, rows, dx);
        std::fill(dx + used, dx + elements, 0.0F);
      }
    });
  }

 private:
  void run(const CtcExample& example, float dloss, const float* x, const float* statistics, float* rows,
           float* dx) const {
    const std::int64_t stride = inputs.sizes.stride, classes = inputs.sizes.classes, steps = example.steps;
    const CtcLattice lattice(inputs.sizes, example, x, statistics, rows);
    float *emitted = rows + stride, *posteriors = rows + 2 * stride, *back = rows + 3 * stride,
          *next = rows + 4 * stride, *there = rows + kRows * stride;
    double log_p = 0;
    if (formulas::ctc_is_never(lattice.arrived(lattice.go(there, steps, emitted, log_p)))) {
      std::fill_n(dx, steps * classes, inputs.sizes.zero_infinity ? 0.0F : std::numeric_limits<float>::quiet_NaN());
      return;
    }
    for (std::int64_t t = steps - 1; t >= 0; --t) {
      if (t == steps - 1) {
        lattice.end(back);
      } else {
        lattice.retreat(next, emitted, back);
        lattice.shift(back);
      }
      lattice.to_posteriors(there + t * stride, back, posteriors);
      lattice.emit(t, emitted);  // before dx, which may lie over x
      write_slopes(example, dloss, x + t * classes, statistics + 2 * t, posteriors + CtcLattice::kBefore,
                   dx + t * classes);
      std::swap(back, next);
    }
  }

  void write_slopes(const CtcExample& example, float dloss, const float* x, const float* statistics, const float* q,
                    float* dx) const {
    const float shift = statistics[0], log_sum = statistics[1];
    const std::int64_t classes = inputs.sizes.classes;
#pragma omp simd
    for (std::int64_t c = 0; c < classes; ++c) {
      dx[c] = dloss * vector_math::exp(formulas::ctc_log_p(x[c], shift, log_sum));
    }
    float of_blank = q[0];
    for (std::int64_t i = 0; i < example.num_labels; ++i) {
      dx[example.label(i)] -= dloss * q[2 * i + 1];
      of_blank += q[2 * i + 2];
    }
    dx[example.blank] -= dloss * of_blank;
  }
};

std::unique_ptr<Kernel> make_ctc_loss(const KernelRequest& request) {
  const CtcForward forward{CtcInputs(request, 0), request.replay};
  return function_kernel(forward, {.workspace_bytes = forward.inputs.workspace_bytes(CtcForward::kRows)});
}

std::unique_ptr<Kernel> make_ctc_loss_grad(const KernelRequest& request) {
  const CtcGradient gradient{CtcInputs(request, 2)};
  return function_kernel(gradient, {.workspace_bytes = gradient.inputs.workspace_bytes(gradient.num_rows()),
                                    .in_place = {{.input = 2, .output = 0}}});
}

}  // namespace

void add_ctc_loss_cpu_kernels(KernelRegistry& registry) {
  registry.add("ctc_loss", make_ctc_loss);
  registry.add("ctc_loss_grad", make_ctc_loss_grad);
}

}  // namespace sectionflow
