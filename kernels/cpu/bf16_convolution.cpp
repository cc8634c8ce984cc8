#include "kernels/cpu/bf16_convolution.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/dtype.h"
#include "device/parallel.h"
#include "kernels/cpu/onednn_matmul.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

/// Whether each place of a window meets a pixel somewhere.
bool meets_pixels_everywhere(const WindowAxis& axis) {
  for (std::int64_t tap = 0; tap < axis.window; ++tap) {
    bool meets = false;
    for (std::int64_t out = 0; out < axis.out && !meets; ++out) {
      const std::int64_t pixel = out * axis.stride + tap * axis.dilation - axis.before;
      meets = pixel >= 0 && pixel < axis.size;
    }
    if (!meets) return false;
  }
  return true;
}

/// Whether oneDNN's code for a stride may be taken along an axis: all windows meet pixels, and, where they have more
/// than one, no pixel is left behind the last of them. It reads and writes past its scratchpad otherwise (2.6.3).
bool may_have_stride(const WindowAxis& axis, bool is_of_one_pixel) {
  const bool meet_pixels = axis.before < axis.extent() && axis.after < axis.extent();
  const bool reach_end = (axis.out - 1) * axis.stride + axis.extent() >= axis.before + axis.size;
  return meet_pixels && (is_of_one_pixel || reach_end);
}

bool is_of_pixels(const ConvolutionGeometry& g) {
  return g.groups == 1 && g.format == DataFormat::nhwc &&
         std::all_of(g.axes.begin(), g.axes.end(), [](const WindowAxis& axis) {
           return axis.window == 1 && axis.before == 0 && (axis.out - 1) * axis.stride < axis.size;
         });
}

class PixelFilterGradient final : public Kernel {
 public:
  PixelFilterGradient(const ConvolutionGeometry& geometry, std::unique_ptr<Kernel> product)
      : g_(geometry), product_(std::move(product)), num_pixels_(g_.batch) {
    for (const WindowAxis& axis : g_.axes) {
      num_pixels_ *= axis.out;
      gathers_ = gathers_ || axis.out != axis.size;
    }
    if (gathers_) gathered_at_ = workspace_.add(static_cast<std::size_t>(num_pixels_ * g_.channels) * sizeof(BFloat16));
    product_at_ = workspace_.add(product_->workspace_bytes());
  }

  std::string implementation() const override {
    return product_->implementation() + (gathers_ ? ", pixels gathered" : ", of pixels");
  }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }
  std::size_t library_bytes() const override { return product_->library_bytes(); }

  void launch(const KernelArguments& arguments) override {
    const void* x = arguments.inputs[1];
    if (gathers_) {
      auto* gathered = static_cast<BFloat16*>(workspace_part(arguments.workspace, gathered_at_));
      gather(static_cast<const BFloat16*>(x), gathered);
      x = gathered;
    }
    const std::array<const void*, 2> inputs = {x, arguments.inputs[0]};
    KernelArguments inner = arguments;
    inner.inputs = inputs;
    inner.workspace = workspace_part(arguments.workspace, product_at_);
    product_->launch(inner);
  }

 private:
  void gather(const BFloat16* x, BFloat16* to) const {
    const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / g_.channels);
    parallel_for(num_pixels_, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t pixel = begin; pixel < end; ++pixel) {
        std::memcpy(to + pixel * g_.channels, x + place_of(pixel) * g_.channels,
                    static_cast<std::size_t>(g_.channels) * sizeof(BFloat16));
      }
    });
  }
  /// Which pixel of x a pixel of y is made of.
  std::int64_t place_of(std::int64_t pixel) const {
    std::int64_t place = 0, step = 1;
    for (auto axis = g_.axes.rbegin(); axis != g_.axes.rend(); ++axis) {
      place += pixel % axis->out * axis->stride * step;
      pixel /= axis->out;
      step *= axis->size;
    }
    return place + pixel * step;
  }

  ConvolutionGeometry g_;
  std::unique_ptr<Kernel> product_;
  std::int64_t num_pixels_;
  bool gathers_ = false;
  WorkspaceLayout workspace_;
  std::size_t gathered_at_ = 0, product_at_ = 0;
};

}  // namespace

bool may_take_bf16(const ConvolutionGeometry& g) {
  if (g.groups != 1 || g.axes.size() != 2) return false;
  const WindowAxis &rows = g.axes[0], &columns = g.axes[1];
  const bool has_stride = rows.stride > 1 || columns.stride > 1;
  if (has_stride && (rows.stride != columns.stride || rows.window != columns.window)) return false;
  const bool is_of_one_pixel = g.num_taps() == 1;
  if (has_stride && !(may_have_stride(rows, is_of_one_pixel) && may_have_stride(columns, is_of_one_pixel)))
    return false;
  const bool fills_vectors = g.filters % 16 == 0 && (g.channels % 16 == 0 || g.channels <= 4);
  return fills_vectors && std::all_of(g.axes.begin(), g.axes.end(), [](const WindowAxis& axis) {
           return axis.dilation == 1 && meets_pixels_everywhere(axis);
         });
}

std::unique_ptr<Kernel> pixel_filter_gradient(OneDnn& onednn, const ConvolutionGeometry& g) {
  // Of fewer weights the product is no faster.
  constexpr std::int64_t kFewestWeights = 8192;
  if (!is_of_pixels(g) || g.channels * g.filters < kFewestWeights) return nullptr;
  MatmulProblem problem{.rows = g.channels, .inner = g.batch, .columns = g.filters, .transpose_a = true};
  for (const WindowAxis& axis : g.axes) problem.inner *= axis.out;
  auto product = whole_product_kernel(onednn, problem, Dtype::bf16);
  if (product == nullptr) return nullptr;
  return std::make_unique<PixelFilterGradient>(g, std::move(product));
}

}  // namespace sectionflow
