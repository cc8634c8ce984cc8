#include "graph/ops/layer_norm.h"

#include <algorithm>

#include "device/parallel.h"
#include "kernels/cpu/columns.h"
#include "kernels/cpu/rows.h"
#include "kernels/formulas/layer_norm.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

namespace sectionflow {
namespace {

// `centred` is true of layer_norm, whose rows have a mean and a shift, and false of rms_norm, whose have none.

/// A tensor seen as [rows, C], cut into blocks of whole rows by shape alone.
struct RowBlocks {
  static constexpr std::int64_t kBlockElements = 16384;

  explicit RowBlocks(const Shape& shape)
      : channels(shape[-1]),
        rows(channels == 0 ? 0 : shape.num_elements() / channels),
        block_rows(std::max<std::int64_t>(1, kBlockElements / std::max<std::int64_t>(1, channels))) {}

  std::int64_t num_blocks() const { return (rows + block_rows - 1) / block_rows; }
  /// Bytes of one f32 a channel and block.
  std::size_t partial_bytes() const { return static_cast<std::size_t>(num_blocks() * channels) * sizeof(float); }
  /// Calls `body(block, first row, end)` for every block, on the compute team, in vectors.
  template <class Body>
  void for_each(const Body& body) const {
    parallel_for(num_blocks(), 1, [&](std::int64_t begin, std::int64_t end) {
      in_vectors_of_rows(channels, [&] {
        for (std::int64_t block = begin; block < end; ++block) {
          body(block, block * block_rows, std::min(rows, (block + 1) * block_rows));
        }
      });
    });
  }

  std::int64_t channels, rows, block_rows;
};

template <class T>
float row_mean(const T* x, std::int64_t channels) {
  const double sum = row_sum(channels, [x](std::int64_t c) { return static_cast<float>(x[c]); });
  return static_cast<float>(sum / static_cast<double>(channels));
}
/// A pass behind that of the mean, while the row is in cache: E[x^2] - E[x]^2 cancels badly for rows with a large mean.
template <class T>
float row_rstd(const T* x, std::int64_t channels, float mean, float epsilon) {
  const double squares = row_sum(channels, [x, mean](std::int64_t c) { return (x[c] - mean) * (x[c] - mean); });
  return formulas::layer_norm_rstd(squares, static_cast<double>(channels), epsilon);
}

/// y may be x.
template <bool centred, class T>
void normalize_row(const T* x, const float* scale, const float* shift, float mean, float rstd, std::int64_t channels,
                   T* y) {
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) {
    y[c] = stored<T>(formulas::layer_normalized(x[c], mean, rstd, scale[c], centred ? shift[c] : 0.0F));
  }
}

/// x and y are stored as T.
template <bool centred, class T>
std::unique_ptr<Kernel> make_norm_of(const KernelRequest& request, float epsilon) {
  const RowBlocks blocks(request.inputs[0].shape);
  const bool has_statistics = request.replay;  // the outputs behind y are already there
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const auto* x = static_cast<const T*>(arguments.inputs[0]);                               // [rows, C]
        const auto* scale = static_cast<const float*>(arguments.inputs[1]);                       // [C]
        const float* shift = centred ? static_cast<const float*>(arguments.inputs[2]) : nullptr;  // [C]
        auto* y = static_cast<T*>(arguments.outputs[0]);                                          // [rows, C]
        float* mean = centred ? static_cast<float*>(arguments.outputs[1]) : nullptr;              // [rows]
        auto* rstd = static_cast<float*>(arguments.outputs[centred ? 2 : 1]);                     // [rows]
        const std::int64_t channels = blocks.channels;
        blocks.for_each([&](std::int64_t, std::int64_t first, std::int64_t end) {
          for (std::int64_t row = first; row < end; ++row) {
            const T* x_row = x + row * channels;
            if (centred && !has_statistics) mean[row] = row_mean(x_row, channels);
            const float m = centred ? mean[row] : 0.0F;
            if (!has_statistics) rstd[row] = row_rstd(x_row, channels, m, epsilon);
            normalize_row<centred>(x_row, scale, shift, m, rstd[row], channels, y + row * channels);
          }
        });
      },
      {.in_place = {{.input = 0, .output = 0}}});
}

/// What a row of the gradient reads; dx may lie over dy or x, which are stored as T like it.
template <bool centred, class T>
struct GradientRow {
  const T *dy, *x;     // [C]
  const float* scale;  // [C]
  formulas::LayerNormGradient at;
  std::int64_t channels;

  /// Writes dx. Adds dy n and, with a shift, dy to the block's sums.
  void run(T* dx, float* dscale, float* dshift) const {
    const auto count = static_cast<double>(channels);
    float g_mean = 0;
    if constexpr (centred) {
      const double sum = row_sum(channels, [this](std::int64_t c) { return at.g(dy[c], scale[c]); });
      g_mean = static_cast<float>(sum / count);
    }
    const auto gn_mean =
        static_cast<float>(row_sum(channels, [this](std::int64_t c) { return at.gn(dy[c], scale[c], x[c]); }) / count);
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
      const float x_c = x[c], dy_c = dy[c];
      dscale[c] += dy_c * at.n(x_c);
      if constexpr (centred) dshift[c] += dy_c;
      dx[c] = stored<T>(at.dx(dy_c, scale[c], x_c, g_mean, gn_mean));
    }
  }
};

/// One pass over dy and x: a row is in cache from its sums on, and a block of rows adds to sums of its own, which are
/// combined in the order of the blocks.
template <bool centred, class T>
struct Gradient {
  RowBlocks blocks;
  std::size_t dscales_at, dshifts_at;  // f32 [blocks, C] each; the second of a shift alone

  void run(const KernelArguments& arguments) const {
    const auto part = [&](std::size_t at) { return static_cast<float*>(workspace_part(arguments.workspace, at)); };
    const auto numbers = [&](int index) { return static_cast<const float*>(arguments.inputs[index]); };
    const auto input = [&](int index) { return static_cast<const T*>(arguments.inputs[index]); };
    const std::int64_t channels = blocks.channels;
    const float *mean = centred ? numbers(layer_norm_grad_input::mean) : nullptr,
                *rstd = numbers(centred ? layer_norm_grad_input::rstd : layer_norm_grad_input::mean);  // [rows]
    auto* dx = static_cast<T*>(arguments.outputs[0]);                                                  // [rows, C]
    float *dscales = part(dscales_at), *dshifts = part(dshifts_at);
    blocks.for_each([&](std::int64_t block, std::int64_t first_row, std::int64_t end_row) {
      float *block_dscale = dscales + block * channels, *block_dshift = dshifts + block * channels;
      std::fill_n(block_dscale, channels, 0.0F);
      if (centred) std::fill_n(block_dshift, channels, 0.0F);
      for (std::int64_t row = first_row; row < end_row; ++row) {
        const std::int64_t first = row * channels;
        const GradientRow<centred, T> gradient{input(layer_norm_grad_input::dy) + first,
                                               input(layer_norm_grad_input::x) + first,
                                               numbers(layer_norm_grad_input::scale),
                                               {centred ? mean[row] : 0.0F, rstd[row]},
                                               channels};
        gradient.run(dx + first, block_dscale, block_dshift);
      }
    });
    const auto combine = [&](const float* of_blocks, void* output) {
      auto* sums = static_cast<float*>(output);  // [C]
      combine_blocks(
          blocks.num_blocks(), channels,
          [=](std::int64_t block, std::int64_t c) { return of_blocks[block * channels + c]; },
          [=](std::int64_t c, double sum) { sums[c] = static_cast<float>(sum); });
    };
    combine(dscales, arguments.outputs[1]);
    if constexpr (centred) combine(dshifts, arguments.outputs[2]);
  }
};

template <bool centred, class T>
std::unique_ptr<Kernel> make_norm_grad_of(const KernelRequest& request) {
  const RowBlocks blocks(request.outputs[0].shape);
  WorkspaceLayout workspace;
  const std::size_t dscales_at = workspace.add(blocks.partial_bytes());
  const std::size_t dshifts_at = workspace.add(centred ? blocks.partial_bytes() : 0);
  return function_kernel([gradient = Gradient<centred, T>{blocks, dscales_at, dshifts_at}](
                             const KernelArguments& arguments) { gradient.run(arguments); },
                         {.workspace_bytes = workspace.num_bytes(),
                          .in_place = {{.input = layer_norm_grad_input::dy, .output = 0},
                                       {.input = layer_norm_grad_input::x, .output = 0}}});
}

template <class Options, bool centred>
std::unique_ptr<Kernel> make_norm(const KernelRequest& request) {
  const float epsilon = request.node.options<Options>().epsilon;
  return with_stored_type(request.inputs[0].dtype,
                          [&](auto element) { return make_norm_of<centred, decltype(element)>(request, epsilon); });
}

template <bool centred>
std::unique_ptr<Kernel> make_norm_grad(const KernelRequest& request) {
  return with_stored_type(request.inputs[layer_norm_grad_input::x].dtype,
                          [&](auto element) { return make_norm_grad_of<centred, decltype(element)>(request); });
}

}  // namespace

void add_layer_norm_cpu_kernels(KernelRegistry& registry) {
  registry.add("layer_norm", make_norm<LayerNormOptions, true>, Bf16::native);
  registry.add("layer_norm_grad", make_norm_grad<true>, Bf16::native);
  registry.add("rms_norm", make_norm<RmsNormOptions, false>, Bf16::native);
  registry.add("rms_norm_grad", make_norm_grad<false>, Bf16::native);
}

}  // namespace sectionflow
