#include "graph/ops/quantized_convolution.h"

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "device/parallel.h"
#include "graph/nodes/quantized_convolution.h"
#include "kernels/convolution_loop.h"
#include "kernels/cpu/convolution_bands.h"
#include "kernels/cpu/convolution_kernel.h"
#include "kernels/cpu/ordered_weights.h"
#include "kernels/cpu/wide_vectors.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/quantized_element.h"

// Sums of products are exact in i32, whoever adds them up; what is made of them is arithmetic of our own. So the bits
// are the same on every instruction set and for every number of threads.

namespace sectionflow {
namespace {

using dnnl::memory;

/// i32 that a thread makes at once: they are read again from its core's second cache, or as good as from there. Of a
/// quarter as many resnet50 in batches of 8 takes 5 % longer (measured on Zen 5), since calls and weights count more.
constexpr std::size_t kSumBytes = 1 << 20;

/// Makes rows of y of their sums, on the calling thread: (sums, arguments of the kernel, the first row, how many).
using MakeRows = std::function<void(const std::int32_t*, const KernelArguments&, std::int64_t, std::int64_t)>;

template <class Residual, class Y>
struct RowMaker {
  std::int64_t channels;
  bool has_residual;
  float residual_factor;
  formulas::Requantize requantize;

  void make_row(const std::int32_t* sums, const float* factor, const float* bias, const Residual* residual,
                Y* y) const {
    if (has_residual) {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) {
        const float scaled = static_cast<float>(sums[c]) * factor[c] + bias[c];
        y[c] = requantize.as<Y>(scaled + static_cast<float>(residual[c]) * residual_factor);
      }
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) {
        y[c] = requantize.as<Y>(static_cast<float>(sums[c]) * factor[c] + bias[c]);
      }
    }
  }

  /// The rows from `first` on, whose sums are `sums`.
  void operator()(const std::int32_t* sums, const KernelArguments& arguments, std::int64_t first,
                  std::int64_t rows) const {
    const auto* factor = static_cast<const float*>(arguments.inputs[2]);
    const auto* bias = static_cast<const float*>(arguments.inputs[3]);
    const auto* residual = has_residual ? static_cast<const Residual*>(arguments.inputs[4]) : nullptr;
    auto* y = static_cast<Y*>(arguments.outputs[0]);
    in_wide_vectors([&] {
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t at = (first + row) * channels;
        make_row(sums + row * channels, factor, bias, has_residual ? residual + at : nullptr, y + at);
      }
    });
  }
};

MakeRows row_maker(const KernelRequest& request, const QuantizedProblem& problem) {
  const bool has_residual = request.inputs.size() > 4;
  return with_quantized_type(has_residual ? request.inputs[4].dtype : Dtype::f32, [&](auto residual) {
    return with_quantized_type(problem.product.result.dtype, [&](auto y) -> MakeRows {
      return RowMaker<decltype(residual), decltype(y)>{problem.w[-1], has_residual, problem.product.residual_factor,
                                                       requantize_of(problem.product.result)};
    });
  });
}

std::vector<InPlace> places_of_residual(const KernelRequest& request) {
  return request.inputs.size() > 4 ? over_input(request, 4) : std::vector<InPlace>();
}

/// oneDNN adds up, band by band. Either each thread adds up bands of its own and makes rows of them while they are in
/// its cache, or all threads add up a band together.
class OneDnnQuantizedConvolution : public Kernel {
 public:
  /// Pixels of y that are computed at once.
  struct Band {
    std::size_t kind = 0;  ///< which of a lane's calls
    std::size_t x_at = 0;  ///< in bytes
    std::int64_t first_row = 0, rows = 0;
  };
  struct Parts {
    std::vector<Band> bands;
    /// [lane][kind]: those of several lanes compute at the same time, on a thread each; that of one on all threads.
    std::vector<std::vector<OneDnnCall>> calls;
    OrderedWeights weights;
    std::size_t sum_bytes = 0;  ///< of the largest band
    std::int64_t filters = 0;
  };
  OneDnnQuantizedConvolution(Parts parts, MakeRows make_rows, std::vector<InPlace> in_place)
      : parts_(std::move(parts)), make_rows_(std::move(make_rows)), in_place_(std::move(in_place)) {
    lay_out();
  }

  std::string implementation() const override { return "onednn " + parts_.calls[0][0].implementation(); }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }
  std::size_t library_bytes() const override {
    std::size_t bytes = parts_.weights.library_bytes();
    // Lanes' calls of a kind are made of one description, for which oneDNN keeps one primitive that they share.
    for (const OneDnnCall& call : parts_.calls[0]) bytes += call.library_bytes();
    return bytes;
  }
  std::vector<InPlace> in_place() const override { return in_place_; }

  void launch(const KernelArguments& arguments) override {
    void* place = workspace_part(arguments.workspace, weights_at_);
    const void* weights =
        parts_.weights.in_order(arguments.inputs[1], place, workspace_part(arguments.workspace, lanes_at_));
    const auto lanes = static_cast<std::int64_t>(parts_.calls.size());
    if (lanes == 1) {
      launch_together(arguments, weights);
      return;
    }
    const auto num_bands = static_cast<std::int64_t>(parts_.bands.size());
    parallel_for(lanes, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t lane = begin; lane < end; ++lane) {
        for (std::int64_t i = num_bands * lane / lanes; i < num_bands * (lane + 1) / lanes; ++i) {
          const Band& band = parts_.bands[static_cast<std::size_t>(i)];
          const std::int32_t* sums = add_up(static_cast<std::size_t>(lane), band, arguments, weights);
          make_rows_(sums, arguments, band.first_row, band.rows);
        }
      }
    });
  }

 protected:
  void lay_out() {
    workspace_ = {};
    weights_at_ = workspace_.add(parts_.weights.bytes());
    std::size_t scratchpad_bytes = 0;
    for (const OneDnnCall& call : parts_.calls[0])
      scratchpad_bytes = std::max(scratchpad_bytes, call.scratchpad_bytes());
    WorkspaceLayout lane;
    (void)lane.add(parts_.sum_bytes);
    scratchpad_at_ = lane.add(scratchpad_bytes);
    lane_bytes_ = lane.num_bytes();
    lanes_at_ = workspace_.add(std::max(lane_bytes_ * parts_.calls.size(), parts_.weights.scratchpad_bytes()));
  }

  Parts parts_;

 private:
  /// The sums of a band, in the scratch of a lane.
  const std::int32_t* add_up(std::size_t lane, const Band& band, const KernelArguments& arguments,
                             const void* weights) {
    void* sums = workspace_part(arguments.workspace, lanes_at_ + lane * lane_bytes_);
    const void* x = static_cast<const std::byte*>(arguments.inputs[0]) + band.x_at;
    parts_.calls[lane][band.kind].launch({x, weights, sums}, workspace_part(sums, scratchpad_at_));
    return static_cast<const std::int32_t*>(sums);
  }

  void launch_together(const KernelArguments& arguments, const void* weights) {
    const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / parts_.filters);
    for (const Band& band : parts_.bands) {
      const std::int32_t* sums = add_up(0, band, arguments, weights);
      parallel_for(band.rows, grain, [&](std::int64_t begin, std::int64_t end) {
        make_rows_(sums + begin * parts_.filters, arguments, band.first_row + begin, end - begin);
      });
    }
  }

  MakeRows make_rows_;
  std::vector<InPlace> in_place_;
  WorkspaceLayout workspace_;
  std::size_t weights_at_ = 0, lanes_at_ = 0;
  std::size_t lane_bytes_ = 0, scratchpad_at_ = 0;  // within a lane's scratch, behind the sums
};

/// The same of u8, whose weights may be packed: for i8 oneDNN may put sums behind them, and then they cannot be brought
/// back into the order of a tensor.
class PackableQuantizedConvolution final : public OneDnnQuantizedConvolution, public ReadsOrderedWeights {
 public:
  using OneDnnQuantizedConvolution::OneDnnQuantizedConvolution;

  std::size_t weights_input() const override { return 1; }
  const OrderedWeights& weights() const override { return parts_.weights; }
  void take_packed() override {
    parts_.weights.take_packed();
    lay_out();
  }
};

/// Whether the implementation of that name may add up. What is neither of brgemm nor of tiles takes i8 for u8 that is
/// 128 more, and takes the difference off in f32 (2.6.3): exact up to 2^24 alone.
template <bool may_have_tiles, bool has_long_sums>
bool adds_exactly(std::string_view name) {
  const bool has_tiles = name.find("amx") != std::string_view::npos;
  if (!is_exact_with_bytes(name) || (has_tiles && !may_have_tiles)) return false;
  return !has_long_sums || has_tiles || name.starts_with("brg");
}

/// Whether code for tiles may be taken. oneDNN's copies pixels to a scratchpad, a part a thread, that it takes to be
/// smaller than they are where windows have a stride: where they pass over pixels, where some lie behind the last
/// window, and where channels fill no block. It writes past its part, into that of the next thread (2.6.3).
bool may_have_tiles(const ConvolutionGeometry& g) {
  constexpr std::int64_t kTileBytes = 64;
  const auto has_no_stride = [](const WindowAxis& axis) { return axis.stride == 1; };
  const auto reads_all = [](const WindowAxis& axis) {
    return axis.extent() >= axis.stride && (axis.out - 1) * axis.stride + axis.extent() >= axis.before + axis.size;
  };
  const auto is_bare = [](const WindowAxis& axis) { return axis.window == 1 && axis.before == 0 && axis.after == 0; };
  // Windows of one pixel are products, of code of their own.
  return std::all_of(g.axes.begin(), g.axes.end(), is_bare) ||
         std::all_of(g.axes.begin(), g.axes.end(), has_no_stride) ||
         (g.channels / g.groups % kTileBytes == 0 && std::all_of(g.axes.begin(), g.axes.end(), reads_all));
}

WantedImplementation wanted_implementation(const ConvolutionGeometry& g, Dtype x) {
  constexpr std::int64_t kMostExactProducts = (1 << 24) / (255 * 128);
  const bool has_long_sums = x == Dtype::i8 && g.num_taps() * (g.channels / g.groups) > kMostExactProducts;
  if (may_have_tiles(g)) return has_long_sums ? adds_exactly<true, true> : adds_exactly<true, false>;
  return has_long_sums ? adds_exactly<false, true> : adds_exactly<false, false>;
}

/// What is computed in so many lanes; nothing where oneDNN has no exact code for one of the bands, or wants the weights
/// of one in another order than those of the first.
std::optional<OneDnnQuantizedConvolution::Parts> parts_of(const KernelRequest& request,
                                                          const std::vector<ConvolutionBand>& bands,
                                                          std::size_t lanes) {
  constexpr std::size_t kMostKinds = 4;
  if (bands.empty()) return std::nullopt;
  OneDnn& onednn = onednn_of(request);
  const ConvolutionDtypes dtypes = {request.inputs[0].dtype, Dtype::i8, Dtype::i32};
  OneDnnQuantizedConvolution::Parts parts;
  parts.calls.resize(lanes);
  parts.filters = bands[0].geometry.filters;
  memory::desc our_weights, weights;
  std::vector<const ConvolutionBand*> kinds;
  {
    // What several threads compute at the same time is made for one.
    std::optional<ComputeTeam> alone;
    if (lanes > 1) alone.emplace(1);
    for (const ConvolutionBand& band : bands) {
      const auto found =
          std::find_if(kinds.begin(), kinds.end(), [&](const ConvolutionBand* kind) { return are_alike(*kind, band); });
      parts.bands.push_back({.kind = static_cast<std::size_t>(found - kinds.begin()),
                             .x_at = static_cast<std::size_t>(band.first_x * band.geometry.channels),
                             .first_row = band.first_y,
                             .rows = band.pixels()});
      if (found != kinds.end()) continue;
      if (kinds.size() == kMostKinds) return std::nullopt;
      const auto problem = convolution_problem(band.geometry, dtypes);
      const WantedImplementation is_wanted = wanted_implementation(problem.geometry, dtypes.x);
      const auto description = describe_convolution(onednn, onednn_words(problem), is_wanted);
      const std::string_view name = description.impl_info_str();
      // Several calls at the same time are tried with vectors alone, not with tiles.
      if (!is_wanted(name) || (lanes > 1 && name.find("amx") != std::string_view::npos)) return std::nullopt;
      if (kinds.empty()) weights = description.weights_desc();
      if (description.weights_desc() != weights) return std::nullopt;
      our_weights = problem.our_weights;
      for (auto& calls : parts.calls) {
        calls.emplace_back(onednn, description,
                           std::initializer_list<OneDnnArgument>{
                               {DNNL_ARG_SRC, problem.x}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, problem.y}});
      }
      parts.sum_bytes = std::max(parts.sum_bytes, problem.y.get_size());
      kinds.push_back(&band);
    }
  }
  parts.weights = OrderedWeights(onednn, our_weights, weights);
  return parts;
}

/// By as many lanes as there are threads, or by one where that does not serve.
std::optional<OneDnnQuantizedConvolution::Parts> parts_of(const KernelRequest& request,
                                                          const ConvolutionGeometry& whole) {
  const std::int64_t image = whole.y_shape().num_elements() / (whole.batch * whole.filters);
  const auto most_sums = static_cast<std::int64_t>(kSumBytes / sizeof(std::int32_t));
  const std::int64_t lanes = omp_get_max_threads(), most_pixels = most_sums / whole.filters;
  const auto sum_bytes = whole.batch * image * static_cast<std::int64_t>(sizeof(std::int32_t)) * whole.filters;
  // Each lane reads all of the weights: where they are the more, it would take longer.
  if (sum_bytes > whole.w_shape().num_elements()) {
    auto parts = parts_of(request, convolution_bands(whole, most_pixels, lanes), static_cast<std::size_t>(lanes));
    if (parts) return parts;
  }
  return parts_of(request, convolution_bands(whole, std::max(most_pixels * lanes, image), 1), 1);
}

/// nullptr where oneDNN has no exact code for the machine.
std::unique_ptr<Kernel> quantized_by_onednn(const KernelRequest& request) {
  const QuantizedProblem quantized = quantized_problem(request.node, request.inputs[0].shape, request.inputs[1].shape);
  const auto whole = convolution_geometry(quantized.x, quantized.w, quantized.convolution, request.node.label());
  if (quantized.x.num_elements() == 0 || whole.y_shape().num_elements() == 0) return nullptr;
  auto parts = parts_of(request, whole);
  if (!parts) return nullptr;
  auto make_rows = row_maker(request, quantized);
  if (request.inputs[0].dtype == Dtype::i8) {
    return std::make_unique<OneDnnQuantizedConvolution>(std::move(*parts), std::move(make_rows),
                                                        places_of_residual(request));
  }
  return std::make_unique<PackableQuantizedConvolution>(std::move(*parts), std::move(make_rows),
                                                        places_of_residual(request));
}

constexpr std::int64_t kMostIntegerLanes = 64;  // filters whose sums stay in registers and in the first cache

/// The sums of one pixel of y by the filters of a group from `first` on. Images have channels last; weights lie as
/// [K..., C / G, F].
template <class X>
void sum_integers(const ConvolutionLoop& loop, const X* x, const std::int8_t* w, std::int64_t pixel, std::int64_t group,
                  std::int64_t first, std::int64_t lanes, std::int32_t* sums) {
  const WindowAxis* axes = loop.axes;
  const std::int64_t out[3] = {pixel / (axes[1].out * axes[2].out) % axes[0].out, pixel / axes[2].out % axes[1].out,
                               pixel % axes[2].out};
  const std::int64_t image = pixel / loop.y_pixels();
  std::fill(sums, sums + lanes, 0);
  for (std::int64_t tap = 0; tap < loop.num_taps(); ++tap) {
    const std::int64_t d = element_under(axes[0], out[0], tap / (axes[1].window * axes[2].window)),
                       h = element_under(axes[1], out[1], tap / axes[2].window % axes[1].window),
                       v = element_under(axes[2], out[2], tap % axes[2].window);
    if (d < 0 || h < 0 || v < 0) continue;
    const std::int64_t from = ((image * axes[0].size + d) * axes[1].size + h) * axes[2].size + v;
    const X* channels = x + from * loop.channels() + group * loop.group_channels;
    const std::int8_t* matrix = w + tap * loop.group_channels * loop.filters() + group * loop.group_filters + first;
    for (std::int64_t c = 0; c < loop.group_channels; ++c) {
      const auto factor = static_cast<std::int32_t>(channels[c]);
      const std::int8_t* row = matrix + c * loop.filters();
#pragma omp simd
      for (std::int64_t f = 0; f < lanes; ++f) sums[f] += factor * static_cast<std::int32_t>(row[f]);
    }
  }
}

/// The same by loops: for machines without such instructions, and for what oneDNN leaves.
template <class X>
std::unique_ptr<Kernel> quantized_loop_kernel(const KernelRequest& request, const QuantizedProblem& quantized) {
  const ConvolutionLoop loop(
      convolution_geometry(quantized.x, quantized.w, quantized.convolution, request.node.label()));
  const std::int64_t filters = loop.filters(), pixels = loop.batch * loop.y_pixels();
  if (filters == 0 || pixels == 0) return function_kernel([](const KernelArguments&) {});
  // All sums of some rows, so that what is made of them is the same code.
  const std::int64_t rows_at_once =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(kSumBytes / sizeof(std::int32_t)) / filters, 1, pixels);
  const std::int64_t work = std::max<std::int64_t>(1, loop.num_taps() * loop.group_channels * filters);
  return function_kernel(
      [=, make_rows = row_maker(request, quantized)](const KernelArguments& arguments) {
        const auto* x = static_cast<const X*>(arguments.inputs[0]);
        const auto* w = static_cast<const std::int8_t*>(arguments.inputs[1]);
        auto* sums = static_cast<std::int32_t*>(arguments.workspace);
        for (std::int64_t start = 0; start < pixels; start += rows_at_once) {
          const std::int64_t rows = std::min(rows_at_once, pixels - start);
          parallel_for(rows, std::max<std::int64_t>(1, kParallelGrain / work), [&](auto begin, auto end) {
            in_wide_vectors([&] {
              for (std::int64_t row = begin; row < end; ++row) {
                for (std::int64_t group = 0; group < loop.groups; ++group) {
                  for (std::int64_t f = 0; f < loop.group_filters; f += kMostIntegerLanes) {
                    sum_integers(loop, x, w, start + row, group, f, std::min(kMostIntegerLanes, loop.group_filters - f),
                                 sums + row * filters + group * loop.group_filters + f);
                  }
                }
              }
            });
          });
          parallel_for(rows, std::max<std::int64_t>(1, kParallelGrain / filters), [&](auto begin, auto end) {
            make_rows(sums + begin * filters, arguments, start + begin, end - begin);
          });
        }
      },
      {.workspace_bytes = static_cast<std::size_t>(rows_at_once * filters) * sizeof(std::int32_t),
       .in_place = places_of_residual(request)});
}

std::unique_ptr<Kernel> quantized_by_loops(const KernelRequest& request) {
  const QuantizedProblem quantized = quantized_problem(request.node, request.inputs[0].shape, request.inputs[1].shape);
  return request.inputs[0].dtype == Dtype::u8 ? quantized_loop_kernel<std::uint8_t>(request, quantized)
                                              : quantized_loop_kernel<std::int8_t>(request, quantized);
}

}  // namespace

void add_quantized_convolution_cpu_kernels(KernelRegistry& registry) {
  for (const char* op : {"quantized_conv2d", "quantized_conv3d", "quantized_matmul"}) {
    registry.add(op, onednn_factory<quantized_by_onednn>);
    registry.add(op, quantized_by_loops);
  }
}

}  // namespace sectionflow
