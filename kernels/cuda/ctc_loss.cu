#include <cmath>
#include <cstdint>
#include <limits>

#include "graph/ops/ctc_loss.h"
#include "kernels/ctc_loss_batch.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/row_teams.h"
#include "kernels/formulas/ctc_loss.h"
#include "kernels/function_kernel.h"
#include "kernels/vector_math.h"

// A block an example, for the sums over states; a team a step, for all that goes over classes.

namespace sectionflow {
namespace {

constexpr int kCtcThreads = 128;
constexpr std::size_t kCtcSharedBytes = 2 * gpu::reduce_bytes<float>();

/// Of each step its largest logit and ln sum e^(x - largest), of steps that do not count 0.
struct StepStatistics {
  gpu::RowTeams rows;  // [N T, C]
  CtcBatch batch;
  float* statistics;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    gpu::RowTeam<Thread> team(thread, rows);
    for (std::int64_t row = team.first_row(); row < rows.count; row += team.row_step()) {
      const std::int64_t n = row / batch.sizes.steps;
      float largest = 0, log_sum = 0;
      if (row - n * batch.sizes.steps < batch.input_lengths[n]) {
        const auto of_row = team.exponentials(team.row(batch.x, row));
        largest = of_row.shift;
        log_sum = static_cast<float>(std::log(of_row.sum));
      }
      if (team.lane() != 0) continue;
      statistics[2 * row] = largest;
      statistics[2 * row + 1] = log_sum;
    }
  }
};

/// What a block does with the states of its example. A row of them begins at two floats behind where it lies. All
/// threads of the block must call; states are a thread's in turn, so that it may read its own without a barrier.
template <class Thread>
class CtcBlock {
 public:
  SF_HOST_DEVICE CtcBlock(Thread& thread, const CtcBatch& batch)
      : thread_(thread), batch_(batch), n_(thread.block()), example_(batch.example(thread.block())) {}

  SF_HOST_DEVICE const CtcExample& example() const { return example_; }
  SF_HOST_DEVICE std::int64_t states() const { return example_.states(); }
  /// Lengths and labels are in their ranges.
  SF_HOST_DEVICE bool is_valid() {
    float wrong = example_.has_lengths_in(batch_.sizes) ? 0.0F : 1.0F;
    if (wrong == 0.0F) {
      for (std::int64_t i = thread_.index(); i < example_.num_labels; i += thread_.block_size()) {
        if (!example_.has_label(i, batch_.sizes)) wrong = 1;
      }
    }
    return reduce(wrong, gpu::Larger()) == 0.0F;
  }

  /// Goes through all steps. Row t lies at rows + t % num_rows * stride. Gives the last row; `log_p` is what has been
  /// taken from all of it.
  SF_HOST_DEVICE const float* go(float* rows, std::int64_t num_rows, double& log_p) {
    const float* before = nullptr;
    for (std::int64_t t = 0; t < example_.steps; ++t) {
      float* row = rows + t % num_rows * batch_.sizes.stride + 2;
      for_each_state([&](std::int64_t s) {
        float from = s < 2 ? 0.0F : formulas::kCtcNever;
        if (t > 0) {
          from = formulas::ctc_sum(before[s], s >= 1 ? before[s - 1] : formulas::kCtcNever,
                                   example_.may_skip(s) ? before[s - 2] : formulas::kCtcNever);
        }
        row[s] = formulas::ctc_product(from, batch_.log_p(n_, t, example_.class_of(s)));
      });
      log_p += static_cast<double>(shift(row));
      before = row;
    }
    return before;
  }
  /// The logarithm of what has come to the last label or the last blank.
  SF_HOST_DEVICE float arrived(const float* row) const {
    return formulas::ctc_sum(row[states() - 1], states() > 1 ? row[states() - 2] : formulas::kCtcNever,
                             formulas::kCtcNever);
  }
  /// Goes back, and puts the posterior probabilities of each step in the place of the ways there, one row a step.
  /// `back` and `products`: a row each.
  SF_HOST_DEVICE void go_back(float* there, float* back, float* products) {
    thread_.barrier();  // behind those who ask what has arrived
    for (std::int64_t t = example_.steps - 1; t >= 0; --t) {
      float* row = there + t * batch_.sizes.stride + 2;
      if (t == example_.steps - 1) {
        for_each_state([&](std::int64_t s) { back[s] = s + 2 >= states() ? 0.0F : formulas::kCtcNever; });
      } else {
        for_each_state([&](std::int64_t s) {
          products[s] = formulas::ctc_product(back[s], batch_.log_p(n_, t + 1, example_.class_of(s)));
        });
        thread_.barrier();
        for_each_state([&](std::int64_t s) {
          back[s] =
              formulas::ctc_sum(products[s], s + 1 < states() ? products[s + 1] : formulas::kCtcNever,
                                s + 2 < states() && example_.may_skip(s + 2) ? products[s + 2] : formulas::kCtcNever);
        });
        shift(back);  // its barriers let the next step write products again
      }
      float largest = -std::numeric_limits<float>::infinity();
      for_each_state([&](std::int64_t s) {
        row[s] += back[s];
        largest = row[s] > largest ? row[s] : largest;
      });
      largest = reduce(largest, gpu::Larger());
      double sum = 0;
      for_each_state([&](std::int64_t s) {
        row[s] = vector_math::exp(row[s] - largest);
        sum += static_cast<double>(row[s]);
      });
      const float scale = 1.0F / reduce(static_cast<float>(sum), gpu::Sum());
      for_each_state([&](std::int64_t s) { row[s] *= scale; });
    }
  }

 private:
  template <class Use>
  SF_HOST_DEVICE void for_each_state(const Use& use) const {
    for (std::int64_t s = thread_.index(); s < states(); s += thread_.block_size()) use(s);
  }
  /// Makes the largest 0; returns what has been taken away. Behind it all threads may read the row.
  SF_HOST_DEVICE float shift(float* row) {
    float largest = -std::numeric_limits<float>::infinity();
    for_each_state([&](std::int64_t s) { largest = row[s] > largest ? row[s] : largest; });
    largest = reduce(largest, gpu::Larger());
    if (!(largest > 0.5F * formulas::kCtcNever)) largest = 0;
    for_each_state([&](std::int64_t s) { row[s] -= largest; });
    thread_.barrier();
    return largest;
  }
  template <class Combine>
  SF_HOST_DEVICE float reduce(float value, const Combine& combine) {
    // Two slots in turn: the barrier within one reduction frees the slot of the one before.
    slot_ = 1 - slot_;
    return gpu::block_reduce(thread_, value, static_cast<std::size_t>(slot_) * gpu::reduce_bytes<float>(), combine);
  }

  Thread& thread_;
  const CtcBatch& batch_;
  std::int64_t n_;
  CtcExample example_;
  int slot_ = 0;
};

struct CtcLosses {
  static constexpr std::int64_t kRows = 2;
  CtcBatch batch;
  float *losses, *rows;  // [N], [N, 2, stride]

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    CtcBlock<Thread> block(thread, batch);
    const std::int64_t n = thread.block();
    const float infinite = batch.sizes.zero_infinity ? 0.0F : std::numeric_limits<float>::infinity();
    float loss = std::numeric_limits<float>::quiet_NaN();
    if (block.is_valid()) {
      if (block.example().steps == 0) {
        loss = block.example().num_labels == 0 ? 0.0F : infinite;
      } else {
        double log_p = 0;
        const float last = block.arrived(block.go(rows + n * kRows * batch.sizes.stride, kRows, log_p));
        loss = formulas::ctc_is_never(last) ? infinite : static_cast<float>(-(log_p + static_cast<double>(last)));
      }
    }
    if (thread.index() == 0) losses[n] = loss;
  }
};

/// Posterior probabilities of the states, and what an example's softmax counts: dloss, 0, or NaN where it has none.
struct CtcPosteriors {
  static constexpr std::int64_t kRows = 2;  // behind those of the steps
  CtcBatch batch;
  const float* dlosses;
  float *slopes, *rows;  // [N], [N, T + 2, stride]

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    CtcBlock<Thread> block(thread, batch);
    const std::int64_t n = thread.block(), stride = batch.sizes.stride;
    float* there = rows + n * (batch.sizes.steps + kRows) * stride;
    float slope = std::numeric_limits<float>::quiet_NaN();
    if (block.is_valid()) {
      slope = dlosses[n];
      if (block.example().steps > 0) {
        double log_p = 0;
        const float last = block.arrived(block.go(there, batch.sizes.steps, log_p));
        if (formulas::ctc_is_never(last)) {
          slope = batch.sizes.zero_infinity ? 0.0F : std::numeric_limits<float>::quiet_NaN();
        } else {
          float* back = there + batch.sizes.steps * stride;
          block.go_back(there, back, back + stride);
        }
      }
    }
    if (thread.index() == 0) slopes[n] = slope;
  }
};

/// dx = slope softmax(x), and 0 of steps that do not count; it may be the logits.
struct CtcSoftmaxSlopes {
  gpu::RowTeams rows;  // [N T, C]
  CtcBatch batch;
  const float* slopes;
  float* dx;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    gpu::RowTeam<Thread> team(thread, rows);
    for (std::int64_t row = team.first_row(); row < rows.count; row += team.row_step()) {
      const std::int64_t n = row / batch.sizes.steps;
      const float slope = slopes[n], shift = batch.statistics[2 * row], log_sum = batch.statistics[2 * row + 1];
      // Lengths that are out of range make NaN of all steps.
      const bool counts = row - n * batch.sizes.steps < batch.input_lengths[n] || slope != slope;
      team.map(
          team.row(dx, row),
          [=](std::int64_t, float x_c) {
            if (!counts || slope == 0.0F) return 0.0F;
            return slope * vector_math::exp(formulas::ctc_log_p(x_c, shift, log_sum));
          },
          team.row(batch.x, row));
    }
  }
};

/// Takes from dx what is known of a class: a thread for each step and label, of which the first of its class takes all,
/// and for its blank.
struct CtcTakePosteriors {
  CtcBatch batch;
  const float *slopes, *rows;
  float* dx;

  std::int64_t count() const { return batch.sizes.examples * batch.sizes.steps * (batch.sizes.labels + 1); }

  SF_HOST_DEVICE void operator()(std::int64_t item) const {
    const CtcSizes& sizes = batch.sizes;
    const std::int64_t step = item / (sizes.labels + 1), i = item - step * (sizes.labels + 1);
    const std::int64_t n = step / sizes.steps, t = step - n * sizes.steps;
    const CtcExample example = batch.example(n);
    const float slope = slopes[n];
    if (slope == 0.0F || slope != slope || t >= example.steps) return;
    const bool is_blank = i == sizes.labels;
    if (!is_blank && i >= example.num_labels) return;
    const std::int64_t of_class = is_blank ? sizes.blank : example.label(i);
    const float* q = rows + (n * (sizes.steps + CtcPosteriors::kRows) + t) * sizes.stride + 2;
    float sum = is_blank ? q[0] : 0.0F;
    for (std::int64_t k = 0; k < example.num_labels; ++k) {
      if (is_blank) {
        sum += q[2 * k + 2];
      } else if (example.label(k) == of_class) {
        if (k < i) return;
        sum += q[2 * k + 1];
      }
    }
    dx[step * sizes.classes + of_class] -= slope * sum;
  }
};

gpu::LaunchShape block_an_example(const CtcSizes& sizes) {
  return {.blocks = sizes.examples, .threads = kCtcThreads, .shared_bytes = kCtcSharedBytes};
}

std::unique_ptr<Kernel> make_ctc_loss(const KernelRequest& request) {
  return function_kernel(
      [inputs = CtcInputs(request, 0), steps = gpu::RowTeams(request.inputs[0].shape),
       has_statistics = request.replay](const KernelArguments& arguments) {
        auto* statistics = static_cast<float*>(arguments.outputs[1]);
        const CtcBatch batch = inputs.batch(arguments, statistics);
        if (!has_statistics) {
          gpu::launch_blocks(arguments.queue, steps.launch_shape(), StepStatistics{steps, batch, statistics});
        }
        gpu::launch_blocks(
            arguments.queue, block_an_example(inputs.sizes),
            CtcLosses{batch, static_cast<float*>(arguments.outputs[0]), static_cast<float*>(arguments.workspace)});
      },
      {.workspace_bytes = CtcInputs(request, 0).workspace_bytes(CtcLosses::kRows)});
}

std::unique_ptr<Kernel> make_ctc_loss_grad(const KernelRequest& request) {
  const CtcInputs inputs(request, 2);
  WorkspaceLayout workspace;
  const std::size_t slopes_at = workspace.add(static_cast<std::size_t>(inputs.sizes.examples) * sizeof(float));
  const std::size_t rows_at = workspace.add(inputs.workspace_bytes(inputs.sizes.steps + CtcPosteriors::kRows));
  return function_kernel(
      [inputs, slopes_at, rows_at, steps = gpu::RowTeams(request.inputs[2].shape)](const KernelArguments& arguments) {
        const CtcBatch batch = inputs.batch(arguments, arguments.inputs[1]);
        const auto part = [&](std::size_t at) { return static_cast<float*>(workspace_part(arguments.workspace, at)); };
        auto* dx = static_cast<float*>(arguments.outputs[0]);
        gpu::launch_blocks(
            arguments.queue, block_an_example(inputs.sizes),
            CtcPosteriors{batch, static_cast<const float*>(arguments.inputs[0]), part(slopes_at), part(rows_at)});
        // From here on dx may lie over the logits.
        gpu::launch_blocks(arguments.queue, steps.launch_shape(), CtcSoftmaxSlopes{steps, batch, part(slopes_at), dx});
        const CtcTakePosteriors take{batch, part(slopes_at), part(rows_at), dx};
        gpu::launch_each(arguments.queue, take.count(), take);
      },
      {.workspace_bytes = workspace.num_bytes(), .in_place = {{.input = 2, .output = 0}}});
}

}  // namespace

void add_ctc_loss_cuda_kernels(KernelRegistry& registry) {
  registry.add("ctc_loss", make_ctc_loss);
  registry.add("ctc_loss_grad", make_ctc_loss_grad);
}

}  // namespace sectionflow
