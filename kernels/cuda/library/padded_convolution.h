#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "graph/nodes/convolution.h"
#include "graph/nodes/window.h"
#include "kernels/cuda/copies.h"
#include "kernels/cuda/library/convolution_numbers.h"
#include "kernels/cuda/library/library_kernels.h"
#include "kernels/kernel.h"

// Convolutions whose zeros are not the same before and after the image, for a library that knows no such: the image
// gets its zeros in workspace, and is convolved without them.
namespace sectionflow::gpu {

inline bool pads_evenly(const ConvolutionGeometry& g) {
  return std::all_of(g.axes.begin(), g.axes.end(), [](const WindowAxis& axis) { return pads_evenly(axis); });
}

/// The images of a convolution with zeros around them, so many at once as the scratch of a library may hold.
struct PaddedImages {
  ConvolutionGeometry geometry{};      ///< of one part of the batch, padded evenly
  Shape x{};                           ///< that part without the zeros
  std::vector<std::int64_t> before{};  ///< zeros before each axis of x
  std::int64_t parts = 1;              ///< of the batch, all of one size
};

/// Of bytes within a batch that a library is given.
inline constexpr std::size_t kPartAlignment = 64;

/// Zeros for the axes that need them. `may_cut`: whether the batch may be cut. Nothing where it cannot be cut so that
/// parts fit, and begin as well as parts of variables do: that is left to kernels that need no copy.
inline std::optional<PaddedImages> padded_images(const ConvolutionGeometry& g, Dtype dtype, bool may_cut) {
  PaddedImages images{.geometry = g};
  images.before.resize(g.axes.size() + 2);
  const std::size_t first_axis = g.format == DataFormat::nhwc ? 1 : 2;
  for (std::size_t i = 0; i < g.axes.size(); ++i) {
    WindowAxis& axis = images.geometry.axes[i];
    if (pads_evenly(axis)) continue;
    images.before[first_axis + i] = axis.before;
    axis.size += axis.before + axis.after;
    axis.before = axis.after = 0;
    if (!pads_evenly(axis)) return std::nullopt;
  }
  const auto bytes = [dtype](const Shape& shape) { return TensorType{dtype, shape}.bytes(); };
  ConvolutionGeometry part = g;
  for (; images.parts <= (may_cut ? g.batch : 1); ++images.parts) {
    if (g.batch % images.parts != 0) continue;
    images.geometry.batch = part.batch = g.batch / images.parts;
    if (bytes(images.geometry.x_shape()) > kMostLibraryWorkspace) continue;
    images.x = part.x_shape();
    const bool are_aligned = (bytes(images.x) | bytes(part.y_shape())) % kPartAlignment == 0;
    if (images.parts > 1 && !are_aligned) continue;
    return images;
  }
  return std::nullopt;
}

/// Which operand of a convolution's kernel is the image: input 0 or 1, or the output.
enum class ImagePlace { input0 = 0, input1 = 1, output = 2 };

/// What the kernel of one part is asked.
inline KernelRequest request_of_part(const KernelRequest& request, const PaddedImages& images, ImagePlace place) {
  KernelRequest part = request;
  const Shape x = images.geometry.x_shape(), y = images.geometry.y_shape();
  part.inputs[0].shape = place == ImagePlace::input0 ? x : y;
  if (place == ImagePlace::input0) part.outputs[0].shape = y;
  if (place == ImagePlace::input1) part.inputs[1].shape = x;
  if (place == ImagePlace::output) part.outputs[0].shape = x;
  return part;
}

/// Runs the kernel of one part on all parts, one after the other.
class PaddedConvolution final : public Kernel {
 public:
  PaddedConvolution(const KernelRequest& request, const PaddedImages& images, ImagePlace place,
                    std::unique_ptr<Kernel> kernel)
      : place_(place),
        parts_(images.parts),
        input_step_(request.inputs[0].bytes() / static_cast<std::size_t>(images.parts)),
        output_step_(request.outputs[0].bytes() / static_cast<std::size_t>(images.parts)),
        kernel_(std::move(kernel)) {
    const Dtype dtype = request.outputs[0].dtype;
    const TensorType padded{dtype, images.geometry.x_shape()};
    image_bytes_ = round_up(padded.bytes());
    copy_ = place == ImagePlace::output
                ? strided_copy_kernel(box_of(padded, images.before, images.x))
                : bordered_copy_kernel({.y = padded, .x = images.x, .before = images.before, .value = 0});
  }

  std::string implementation() const override {
    const std::string name = text_of(kernel_->implementation(), ", padded in scratch");
    return parts_ > 1 ? text_of(name, ", batch in ", parts_) : name;
  }
  /// The padded images, behind them the kernel's own.
  std::size_t workspace_bytes() const override { return image_bytes_ + kernel_->workspace_bytes(); }

  void launch(const KernelArguments& arguments) override {
    for (std::size_t part = 0; part < static_cast<std::size_t>(parts_); ++part) {
      std::array<const void*, 2> inputs = {static_cast<const std::byte*>(arguments.inputs[0]) + part * input_step_,
                                           arguments.inputs[1]};
      launch_part(arguments, inputs, static_cast<std::byte*>(arguments.outputs[0]) + part * output_step_);
    }
  }

 private:
  void launch_part(const KernelArguments& arguments, std::array<const void*, 2>& inputs, void* output) {
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    const auto run = [&](Kernel& kernel, std::span<const void* const> from, void* to) {
      KernelArguments inner = arguments;
      inner.inputs = from;
      inner.outputs = std::span<void* const>(&to, 1);
      inner.workspace = workspace + image_bytes_;
      kernel.launch(inner);
    };
    if (place_ == ImagePlace::output) {
      const void* padded = workspace;
      run(*kernel_, inputs, workspace);
      run(*copy_, std::span(&padded, 1), output);
      return;
    }
    const void*& image = inputs[static_cast<std::size_t>(place_)];
    run(*copy_, std::span(&image, 1), workspace);
    image = workspace;
    run(*kernel_, inputs, output);
  }

  ImagePlace place_;
  std::int64_t parts_;
  std::size_t input_step_, output_step_, image_bytes_ = 0;
  std::unique_ptr<Kernel> kernel_, copy_;
};

}  // namespace sectionflow::gpu
