#include "graph/ops/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/cpu/columns.h"
#include "kernels/cpu/function_kernel.h"
#include "kernels/cpu/workspace_layout.h"
#include "kernels/kernel_registry.h"

// Own loops: oneDNN's statistics depend on the thread count, and it passes over x three times in a training forward
// where two do (a block is still in cache when its variance is taken).

namespace sectionflow {
namespace {

// Positions of the inputs.
namespace forward_input {
enum { x, scale, shift, running_mean, running_variance, is_training };
}
namespace backward_input {
enum { dy, x, scale, mean, variance, is_training };
}

bool training_of(const KernelRequest& request, std::size_t input) {
  const auto& known = request.host_booleans[input];
  SF_CHECK(known.has_value(), InternalError, request.node.label(), ": is_training is not known on the host");
  return *known;
}

float rstd(float variance, float epsilon) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(variance) + static_cast<double>(epsilon)));
}

/// Mean and biased variance of each channel. Each block takes its own mean first, and its squares around it.
/// Source: Chan, Golub and LeVeque 1983, the pairwise formula for combining.
struct Statistics {
  Columns columns;
  std::size_t means_at, squares_at;  // f32 [blocks, C] each

  Statistics(const Columns& columns, WorkspaceLayout& workspace)
      : columns(columns),
        means_at(workspace.add(columns.partial_bytes())),
        squares_at(workspace.add(columns.partial_bytes())) {}

  void run(const float* x, void* workspace, float* mean, float* variance) const {
    auto* means = static_cast<float*>(workspace_part(workspace, means_at));
    auto* squares = static_cast<float*>(workspace_part(workspace, squares_at));
    const std::int64_t channels = columns.channels();
    const auto rows_of = [&](std::int64_t block) {
      return static_cast<double>(columns.block_end(block) - columns.block_begin(block));
    };
    columns.for_each_block([&](std::int64_t block) {
      float* block_means = means + block * channels;
      columns.sum_block(block, {block_means}, [x](std::int64_t i, std::int64_t) { return x[i]; });
      for (std::int64_t c = 0; c < channels; ++c) block_means[c] = static_cast<float>(block_means[c] / rows_of(block));
      const LaneValues around(columns, block_means);
      const float* lane_means = around.data();
      columns.sum_block(block, {squares + block * channels}, [x, lane_means](std::int64_t i, std::int64_t lane) {
        const float centred = x[i] - lane_means[lane];
        return centred * centred;
      });
    });
    const double count = static_cast<double>(std::max<std::int64_t>(1, columns.rows()));
    columns.combine_blocks(
        [&](std::int64_t block, std::int64_t c) { return rows_of(block) * means[block * channels + c]; },
        [&](std::int64_t c, double sum) { mean[c] = static_cast<float>(sum / count); });
    columns.combine_blocks(
        [&](std::int64_t block, std::int64_t c) {
          const double apart = static_cast<double>(means[block * channels + c]) - mean[c];
          return squares[block * channels + c] + rows_of(block) * apart * apart;
        },
        [&](std::int64_t c, double sum) { variance[c] = static_cast<float>(sum / count); });
  }
};

/// y = (x - mean) * factor + shift, with one factor a channel. y may be x.
void normalize(const Columns& columns, const float* x, const float* mean, const float* factor, const float* shift,
               float* y) {
  const LaneValues lane_means(columns, mean), lane_factors(columns, factor), lane_shifts(columns, shift);
  const float *means = lane_means.data(), *factors = lane_factors.data(), *shifts = lane_shifts.data();
  columns.for_each_block([&](std::int64_t block) {
    columns.for_each_strip(block, [&](std::int64_t element, std::int64_t lane, std::int64_t num_lanes) {
#pragma omp simd
      for (std::int64_t i = 0; i < num_lanes; ++i) {
        y[element + i] = (x[element + i] - means[lane + i]) * factors[lane + i] + shifts[lane + i];
      }
    });
  });
}

std::unique_ptr<Kernel> make_forward(const KernelRequest& request) {
  const Columns columns(request.inputs[forward_input::x].shape);
  const float epsilon = request.node.options<BatchNormOptions>().epsilon;
  const bool training = training_of(request, forward_input::is_training);
  const bool has_statistics = request.replay;  // outputs 1 and 2 are already there
  WorkspaceLayout workspace;
  const Statistics statistics(columns, workspace);
  const std::size_t factors_at = workspace.add(static_cast<std::size_t>(columns.channels()) * sizeof(float));
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const auto* x = static_cast<const float*>(arguments.inputs[forward_input::x]);          // [rows, C]
        const auto* scale = static_cast<const float*>(arguments.inputs[forward_input::scale]);  // [C]
        const auto* shift = static_cast<const float*>(arguments.inputs[forward_input::shift]);  // [C]
        auto* mean = static_cast<float*>(arguments.outputs[1]);                                 // [C]
        auto* variance = static_cast<float*>(arguments.outputs[2]);                             // [C]
        auto* factor = static_cast<float*>(workspace_part(arguments.workspace, factors_at));    // [C]
        if (!has_statistics && training) statistics.run(x, arguments.workspace, mean, variance);
        if (!has_statistics && !training) {
          const auto* running_mean = static_cast<const float*>(arguments.inputs[forward_input::running_mean]);
          const auto* running_variance = static_cast<const float*>(arguments.inputs[forward_input::running_variance]);
          std::copy_n(running_mean, columns.channels(), mean);
          std::copy_n(running_variance, columns.channels(), variance);
        }
        for (std::int64_t c = 0; c < columns.channels(); ++c) factor[c] = scale[c] * rstd(variance[c], epsilon);
        normalize(columns, x, mean, factor, shift, static_cast<float*>(arguments.outputs[0]));
      },
      {.workspace_bytes = workspace.num_bytes(), .in_place = {{.input = forward_input::x, .output = 0}}});
}

/// One number a channel for the last pass of the gradient.
struct GradientFactors {
  float* dy_factor;  // scale * rstd
  float* mean_dy;    // mean of dy
  float* x_factor;   // rstd^2 * mean of dy * (x - mean)
};

/// dx = dy_factor * (dy - mean_dy - (x - mean) * x_factor). dx may be dy or x.
/// Source: Ioffe and Szegedy 2015, section 3, with the gradients through mean and variance gathered.
void write_dx(const Columns& columns, const float* dy, const float* x, const float* mean,
              const GradientFactors& factors, float* dx) {
  const LaneValues lane_means(columns, mean), lane_dy_factors(columns, factors.dy_factor),
      lane_mean_dys(columns, factors.mean_dy), lane_x_factors(columns, factors.x_factor);
  const float *means = lane_means.data(), *dy_factors = lane_dy_factors.data(), *mean_dys = lane_mean_dys.data(),
              *x_factors = lane_x_factors.data();
  columns.for_each_block([&](std::int64_t block) {
    columns.for_each_strip(block, [&](std::int64_t element, std::int64_t lane, std::int64_t num_lanes) {
#pragma omp simd
      for (std::int64_t i = 0; i < num_lanes; ++i) {
        const float through_mean = dy[element + i] - mean_dys[lane + i];
        const float through_variance = (x[element + i] - means[lane + i]) * x_factors[lane + i];
        dx[element + i] = dy_factors[lane + i] * (through_mean - through_variance);
      }
    });
  });
}

/// The gradient of a forward pass with the given statistics: of this batch if `training`, constants otherwise.
struct Gradient {
  Columns columns;
  float epsilon;
  bool training;
  std::size_t dy_sums_at, product_sums_at;               // f32 [blocks, C] each
  std::size_t dy_factors_at, mean_dys_at, x_factors_at;  // f32 [C] each

  Gradient(const KernelRequest& request, WorkspaceLayout& workspace)
      : columns(request.inputs[backward_input::x].shape),
        epsilon(request.node.options<BatchNormOptions>().epsilon),
        training(training_of(request, backward_input::is_training)),
        dy_sums_at(workspace.add(columns.partial_bytes())),
        product_sums_at(workspace.add(columns.partial_bytes())),
        dy_factors_at(add_per_channel(workspace)),
        mean_dys_at(add_per_channel(workspace)),
        x_factors_at(add_per_channel(workspace)) {}

  std::size_t add_per_channel(WorkspaceLayout& workspace) const {
    return workspace.add(static_cast<std::size_t>(columns.channels()) * sizeof(float));
  }

  void run(const KernelArguments& arguments) const {
    const auto part = [&](std::size_t at) { return static_cast<float*>(workspace_part(arguments.workspace, at)); };
    const auto input = [&](int index) { return static_cast<const float*>(arguments.inputs[index]); };
    const float *dy = input(backward_input::dy), *x = input(backward_input::x);  // [rows, C]
    const float *scale = input(backward_input::scale), *mean = input(backward_input::mean),
                *variance = input(backward_input::variance);   // [C]
    auto* dscale = static_cast<float*>(arguments.outputs[1]);  // [C]
    auto* dshift = static_cast<float*>(arguments.outputs[2]);  // [C]
    sum(dy, x, mean, part(dy_sums_at), part(product_sums_at), dscale, dshift);
    const GradientFactors factors{part(dy_factors_at), part(mean_dys_at), part(x_factors_at)};
    const float through_statistics = training && columns.rows() > 0 ? 1.0F / static_cast<float>(columns.rows()) : 0.0F;
    for (std::int64_t c = 0; c < columns.channels(); ++c) {
      const float r = rstd(variance[c], epsilon);
      factors.dy_factor[c] = scale[c] * r;
      factors.mean_dy[c] = dshift[c] * through_statistics;
      factors.x_factor[c] = r * r * dscale[c] * through_statistics;
      dscale[c] *= r;  // until here the sum of dy * (x - mean)
    }
    write_dx(columns, dy, x, mean, factors, static_cast<float*>(arguments.outputs[0]));
  }

  /// dshift = sum of dy; product_sum = sum of dy * (x - mean).
  void sum(const float* dy, const float* x, const float* mean, float* dy_sums, float* product_sums, float* product_sum,
           float* dshift) const {
    const std::int64_t channels = columns.channels();
    const LaneValues lane_means(columns, mean);
    const float* means = lane_means.data();
    columns.for_each_block([&](std::int64_t block) {
      columns.sum_block(
          block, {dy_sums + block * channels, product_sums + block * channels},
          [=](std::int64_t i, std::int64_t) { return dy[i]; },
          [=](std::int64_t i, std::int64_t lane) { return dy[i] * (x[i] - means[lane]); });
    });
    columns.combine_blocks([=](std::int64_t block, std::int64_t c) { return dy_sums[block * channels + c]; },
                           [=](std::int64_t c, double total) { dshift[c] = static_cast<float>(total); });
    columns.combine_blocks([=](std::int64_t block, std::int64_t c) { return product_sums[block * channels + c]; },
                           [=](std::int64_t c, double total) { product_sum[c] = static_cast<float>(total); });
  }
};

std::unique_ptr<Kernel> make_backward(const KernelRequest& request) {
  WorkspaceLayout workspace;
  const Gradient gradient(request, workspace);
  return function_kernel(
      [gradient](const KernelArguments& arguments) { gradient.run(arguments); },
      {.workspace_bytes = workspace.num_bytes(),
       .in_place = {{.input = backward_input::dy, .output = 0}, {.input = backward_input::x, .output = 0}}});
}

}  // namespace

void add_batch_norm_cpu_kernels(KernelRegistry& registry) {
  registry.add("batch_norm", make_forward);
  registry.add("batch_norm_grad", make_backward);
}

}  // namespace sectionflow
