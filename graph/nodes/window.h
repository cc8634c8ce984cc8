#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "graph/ops/window.h"

namespace SF_API sectionflow {

/// How a window steps over images, one number a spatial axis: what convolutions and pools of every rank share.
struct WindowSteps {
  std::vector<std::int64_t> stride{}, dilation{};
  PaddingKind padding = PaddingKind::same;
  std::vector<std::int64_t> before{}, after{};  ///< of fixed padding
  DataFormat format = DataFormat::nhwc;
};
/// Options of one rank as those of every rank.
template <std::size_t rank>
WindowSteps window_steps(const std::type_identity_t<PerAxis<rank>>& stride,
                         const std::type_identity_t<PerAxis<rank>>& dilation, const SpatialPadding<rank>& padding,
                         DataFormat format) {
  return {.stride = {stride.begin(), stride.end()},
          .dilation = {dilation.begin(), dilation.end()},
          .padding = padding.kind(),
          .before = {padding.before().begin(), padding.before().end()},
          .after = {padding.after().begin(), padding.after().end()},
          .format = format};
}
/// All of WindowSteps as fields of a file (graph/option_fields.h).
template <class Fields, class Steps>
void describe_steps(Fields& fields, Steps& steps) {
  fields("stride", steps.stride);
  fields("dilation", steps.dilation);
  fields.choice("padding", steps.padding,
                {{PaddingKind::same, "same"}, {PaddingKind::valid, "valid"}, {PaddingKind::fixed, "fixed"}});
  fields("before", steps.before);
  fields("after", steps.after);
  describe_format(fields, steps.format);
}

/// Throws: ArgumentError (starting with `label`) for a number that was cast to a format and is none. For those that go
/// by a format before they make a node, of which it is asked anyway.
void check_format(DataFormat format, const std::string& label);

/// The dimensions of a batch of images, wherever the channels stand in its shape.
struct ImageDims {
  std::int64_t batch = 0, channels = 0;
  std::vector<std::int64_t> sizes{};  ///< one a spatial axis
};
/// Shapes: [N, sizes..., C] or [N, C, sizes...], of rank 3 or more.
ImageDims image_dims(const Shape& shape, DataFormat format);
/// The shape of a batch of images; the inverse of image_dims.
Shape image_shape(const ImageDims& dims, DataFormat format);
/// "[N, H, W, C]", for messages. `rank`: 2 or 3 spatial axes.
std::string image_text(std::size_t rank, DataFormat format);

/// "{2, 1}", for messages: a number an axis, as options are written.
std::string numbers_text(const std::vector<std::int64_t>& numbers);

/// One axis of an image and the window that steps over it. Output o reads the elements o * stride - before + t *
/// dilation of the image, for 0 <= t < window, as far as they exist.
struct WindowAxis {
  std::int64_t size = 1;    ///< of the image
  std::int64_t window = 1;  ///< elements of the window
  std::int64_t stride = 1, dilation = 1;
  std::int64_t before = 0, after = 0;  ///< padding
  std::int64_t out = 1;                ///< outputs

  /// What the window spans, holes of its dilation included.
  std::int64_t extent() const { return (window - 1) * dilation + 1; }
};
/// Throws: ArgumentError, ShapeError (starting with `label`) unless the steps have a number for each axis of the
/// window; for strides, dilations or windows below 1 and padding below 0, and for any beyond 2^31 - 1, which libraries
/// of kernels do not take, with the numbers of all axes.
void check_window(const std::vector<std::int64_t>& window, const WindowSteps& steps, const std::string& label);
/// The hint at the other format, where x `fits` in it; none otherwise. An image in the wrong format is refused for what
/// it seems to be.
Fact format_hint(DataFormat format, bool fits);
/// The format that `format` is not.
DataFormat other_format(DataFormat format);
/// Elements of a whole window, all axes together. Throws: ShapeError (starting with `label`) where they do not fit 64
/// bits.
std::int64_t num_taps(const std::vector<WindowAxis>& axes, const std::string& label);

/// All axes of a window; their outputs follow from the sizes. Throws: ShapeError, ArgumentError (starting with
/// `label`).
std::vector<WindowAxis> window_axes(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& window,
                                    const WindowSteps& steps, const std::string& label);
/// The same of an image x [N, sizes..., C] or [N, C, sizes...], of the window's axes and two more; what is refused
/// hints at the other format where that would do.
std::vector<WindowAxis> image_axes(const Shape& x, const std::vector<std::int64_t>& window, const WindowSteps& steps,
                                   const std::string& label);
/// The outputs of all axes.
std::vector<std::int64_t> outputs_of(const std::vector<WindowAxis>& axes);

}  // namespace sectionflow
