#include <cmath>

#include "graph/ops/layer_norm.h"
#include "kernels/cuda/channels.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/row_teams.h"
#include "kernels/formulas/layer_norm.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

// `centred` is true of layer_norm, whose rows have a mean and a shift, and false of rms_norm, whose have none.

/// y and, but for a replay, the statistics of each row. y may be x.
template <bool centred, class T>
struct Normalize {
  gpu::RowTeams rows;
  const T* x;
  const float *scale, *shift;
  T* y;
  float *mean, *rstd;
  float epsilon;
  bool has_statistics;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    gpu::RowTeam<Thread> team(thread, rows);
    for (std::int64_t row = team.first_row(); row < rows.count; row += team.row_step()) {
      const auto of_row = team.row(x, row);
      const Statistics statistics =
          has_statistics ? Statistics{centred ? mean[row] : 0.0F, rstd[row]} : statistics_of(team, of_row);
      if (!has_statistics && team.lane() == 0) {
        if (centred) mean[row] = statistics.mean;
        rstd[row] = statistics.rstd;
      }
      const auto normalized = [=](std::int64_t, float x_c, float scale_c, float shift_c = 0.0F) {
        return formulas::layer_normalized(x_c, statistics.mean, statistics.rstd, scale_c, shift_c);
      };
      if constexpr (centred) {
        team.map(team.row(y, row), normalized, of_row, scale, shift);
      } else {
        team.map(team.row(y, row), normalized, of_row, scale);
      }
    }
  }

 private:
  struct Statistics {
    float mean, rstd;
  };
  /// Two passes over a row, which is then in cache: E[x^2] - E[x]^2 cancels badly for rows with a large mean.
  template <class Team, class Row>
  SF_HOST_DEVICE Statistics statistics_of(Team& team, const Row& of_row) const {
    const auto count = static_cast<double>(rows.length);
    float m = 0;
    if constexpr (centred) {
      m = static_cast<float>(team.sum([](std::int64_t, float x_c) { return x_c; }, of_row) / count);
    }
    const double squares = team.sum([=](std::int64_t, float x_c) { return (x_c - m) * (x_c - m); }, of_row);
    return {m, formulas::layer_norm_rstd(squares, count, epsilon)};
  }
};

/// dx; it may be dy or x.
template <bool centred, class T>
struct InputGradient {
  gpu::RowTeams rows;
  const T *dy, *x;
  const float *scale, *mean, *rstd;
  T* dx;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    gpu::RowTeam<Thread> team(thread, rows);
    const auto count = static_cast<double>(rows.length);
    for (std::int64_t row = team.first_row(); row < rows.count; row += team.row_step()) {
      const formulas::LayerNormGradient at{centred ? mean[row] : 0.0F, rstd[row]};
      const auto dys = team.row(dy, row), xs = team.row(x, row);
      const auto gn = [=](std::int64_t, float dy_c, float scale_c, float x_c) { return at.gn(dy_c, scale_c, x_c); };
      float g_mean = 0;
      if constexpr (centred) {
        const auto g = [=](std::int64_t, float dy_c, float scale_c) { return at.g(dy_c, scale_c); };
        g_mean = static_cast<float>(team.sum(g, dys, scale) / count);
      }
      const auto gn_mean = static_cast<float>(team.sum(gn, dys, scale, xs) / count);
      team.map(
          team.row(dx, row),
          [=](std::int64_t, float dy_c, float scale_c, float x_c) {
            return at.dx(dy_c, scale_c, x_c, g_mean, gn_mean);
          },
          dys, scale, xs);
    }
  }
};

/// The terms of dscale and, with a shift, dshift.
template <bool centred, class T>
struct ParameterTerms {
  static constexpr int kSums = centred ? 2 : 1;
  using Element = T;
  static constexpr int kInputs = 2;
  const T* inputs[2];  // dy, x
  const float *mean, *rstd;

  SF_HOST_DEVICE formulas::LayerNormGradient of_row(std::int64_t row) const {
    return {centred ? mean[row] : 0.0F, rstd[row]};
  }
  template <int kWidth>
  SF_HOST_DEVICE const ParameterTerms& of_channels(std::int64_t) const {
    return *this;
  }
  SF_HOST_DEVICE void operator()(int, const formulas::LayerNormGradient& at, const float (&values)[2],
                                 double (&sums)[kSums]) const {
    const double slope = values[0];
    // The product of two floats is a double without being rounded.
    sums[0] = std::fma(slope, static_cast<double>(at.n(values[1])), sums[0]);
    if constexpr (centred) sums[1] += slope;
  }
};

/// dscale and, with a shift, dshift.
template <int kSums>
struct WriteParameterGradients {
  float* outputs[kSums];
  SF_HOST_DEVICE void operator()(std::int64_t c, const double (&sums)[kSums]) const {
    for (int k = 0; k < kSums; ++k) outputs[k][c] = static_cast<float>(sums[k]);
  }
};

template <bool centred, class T>
std::unique_ptr<Kernel> make_norm_of(const KernelRequest& request, float epsilon) {
  return function_kernel(
      [rows = gpu::RowTeams(request.inputs[0].shape), epsilon,
       has_statistics = request.replay](const KernelArguments& arguments) {
        const auto input = [&](int index) { return static_cast<const float*>(arguments.inputs[index]); };
        const auto output = [&](int index) { return static_cast<float*>(arguments.outputs[index]); };
        gpu::launch_blocks(
            arguments.queue, rows.launch_shape(),
            Normalize<centred, T>{rows, static_cast<const T*>(arguments.inputs[0]), input(1),
                                  centred ? input(2) : nullptr, static_cast<T*>(arguments.outputs[0]),
                                  centred ? output(1) : nullptr, output(centred ? 2 : 1), epsilon, has_statistics});
      },
      {.in_place = {{.input = 0, .output = 0}}});
}

template <bool centred, class T>
std::unique_ptr<Kernel> make_norm_grad_of(const KernelRequest& request) {
  constexpr int kSums = ParameterTerms<centred, T>::kSums;
  const gpu::RowTeams rows(request.outputs[0].shape);
  const gpu::ChannelCut cut(gpu::Channels(request.outputs[0].shape, DataFormat::nhwc));
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const auto input = [&](int index) { return static_cast<const float*>(arguments.inputs[index]); };
        const auto output = [&](int index) { return static_cast<float*>(arguments.outputs[index]); };
        const auto* dy = static_cast<const T*>(arguments.inputs[layer_norm_grad_input::dy]);
        const auto* x = static_cast<const T*>(arguments.inputs[layer_norm_grad_input::x]);
        const float *mean = centred ? input(layer_norm_grad_input::mean) : nullptr,
                    *rstd = input(centred ? layer_norm_grad_input::rstd : layer_norm_grad_input::mean);
        WriteParameterGradients<kSums> write{};
        for (int k = 0; k < kSums; ++k) write.outputs[k] = output(1 + k);
        // First, as dx may be written over what is summed.
        gpu::sum_channels<kSums>(arguments.queue, cut, arguments.workspace,
                                 ParameterTerms<centred, T>{{dy, x}, mean, rstd}, write);
        gpu::launch_blocks(arguments.queue, rows.launch_shape(),
                           InputGradient<centred, T>{rows, dy, x, input(layer_norm_grad_input::scale), mean, rstd,
                                                     static_cast<T*>(arguments.outputs[0])});
      },
      {.workspace_bytes = cut.partial_bytes(kSums),
       .in_place = {{.input = layer_norm_grad_input::dy, .output = 0},
                    {.input = layer_norm_grad_input::x, .output = 0}}});
}

// x, y and their gradients are f32 or bf16; all else is f32.
template <class Options, bool centred>
std::unique_ptr<Kernel> make_norm(const KernelRequest& request) {
  const float epsilon = request.node.options<Options>().epsilon;
  return with_stored_type(request.outputs[0].dtype,
                          [&](auto element) { return make_norm_of<centred, decltype(element)>(request, epsilon); });
}
template <bool centred>
std::unique_ptr<Kernel> make_norm_grad(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype,
                          [&](auto element) { return make_norm_grad_of<centred, decltype(element)>(request); });
}

}  // namespace

void add_layer_norm_cuda_kernels(KernelRegistry& registry) {
  registry.add("layer_norm", make_norm<LayerNormOptions, true>, Bf16::native);
  registry.add("layer_norm_grad", make_norm_grad<true>, Bf16::native);
  registry.add("rms_norm", make_norm<RmsNormOptions, false>, Bf16::native);
  registry.add("rms_norm_grad", make_norm_grad<false>, Bf16::native);
}

}  // namespace sectionflow
