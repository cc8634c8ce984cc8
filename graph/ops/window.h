#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/export.h"
#include "base/shape.h"
#include "graph/ops/data_format.h"

namespace SF_API sectionflow {

/// A number for each spatial axis, {height, width} or {depth, height, width}; one number means it for all of them.
///
///   conv2d(x, {.features = 16, .kernel = {1, 3}, .stride = 2});
template <std::size_t rank>
class PerAxis {
 public:
  static_assert(rank >= 2, "one number would mean two things");

  constexpr PerAxis() = default;
  /// The same along all axes.
  template <std::integral Number>
  constexpr PerAxis(Number all) {  // NOLINT(google-explicit-constructor): `.stride = 2` reads well
    numbers_.fill(static_cast<std::int64_t>(all));
  }
  /// One an axis, no fewer.
  template <std::integral... Number>
  requires(sizeof...(Number) == rank) constexpr PerAxis(Number... numbers)  // NOLINT: `.stride = {2, 1}`
      : numbers_{static_cast<std::int64_t>(numbers)...} {}
  constexpr PerAxis(const std::array<std::int64_t, rank>& numbers) : numbers_(numbers) {}  // NOLINT

  /// An axis at a time, as of an array.
  static constexpr std::size_t size() { return rank; }
  constexpr std::int64_t& operator[](std::size_t axis) { return numbers_[axis]; }
  constexpr std::int64_t operator[](std::size_t axis) const { return numbers_[axis]; }
  constexpr std::int64_t* begin() { return numbers_.data(); }
  constexpr std::int64_t* end() { return numbers_.data() + rank; }
  constexpr const std::int64_t* begin() const { return numbers_.data(); }
  constexpr const std::int64_t* end() const { return numbers_.data() + rank; }
  friend constexpr bool operator==(const PerAxis&, const PerAxis&) = default;

 private:
  std::array<std::int64_t, rank> numbers_{};
};

/// The three kinds of SpatialPadding.
enum class PaddingKind { same, valid, fixed };

/// How much surrounds an image of `rank` spatial axes: zeros before a convolution, nothing that counts before a pool.
/// `same` gives ceil(size / stride) outputs, with the odd zero after the image (as TensorFlow does); `valid` pads
/// nothing; explicit numbers are taken as they stand.
template <std::size_t rank>
class SpatialPadding {
 public:
  using Kind = PaddingKind;
  using Sizes = PerAxis<rank>;
  static const SpatialPadding same;
  static const SpatialPadding valid;

  constexpr SpatialPadding() = default;
  /// The same before and after: one number for all axes, {height, width} or {depth, height, width}.
  template <std::integral... Size>
  requires(sizeof...(Size) == rank || sizeof...(Size) == 1) constexpr SpatialPadding(
      Size... sizes)  // NOLINT(google-explicit-constructor): `.padding = {1, 1}` reads well
      : SpatialPadding(Sizes{sizes...}, Sizes{sizes...}) {}
  /// Two of three numbers are a mistake, and not what is before and after.
  template <std::integral Before, std::integral After>
  requires(rank != 2) constexpr SpatialPadding(Before, After) = delete;
  /// Numbers before (front, top, left) and after (back, bottom, right).
  constexpr SpatialPadding(Sizes before, Sizes after) : kind_(Kind::fixed), before_(before), after_(after) {}

  Kind kind() const { return kind_; }
  const Sizes& before() const { return before_; }
  const Sizes& after() const { return after_; }

 private:
  constexpr explicit SpatialPadding(Kind kind) : kind_(kind) {}
  Kind kind_ = Kind::same;
  Sizes before_ = {};
  Sizes after_ = {};
};
// `const` once more: nvcc hands on to its host compiler no const that constexpr implies.
template <std::size_t rank>
inline constexpr const SpatialPadding<rank> SpatialPadding<rank>::same{Kind::same};
template <std::size_t rank>
inline constexpr const SpatialPadding<rank> SpatialPadding<rank>::valid{Kind::valid};

using Padding = SpatialPadding<2>;
using Padding3d = SpatialPadding<3>;

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
/// Throws: ArgumentError, ShapeError (starting with `label`) for strides, dilations or windows below 1 and padding
/// below 0, with the numbers of all axes.
void check_window(const std::vector<std::int64_t>& window, const WindowSteps& steps, const std::string& label);
/// All axes of a window; their outputs follow from the sizes. Throws: ShapeError, ArgumentError (starting with
/// `label`).
std::vector<WindowAxis> window_axes(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& window,
                                    const WindowSteps& steps, const std::string& label);
/// The outputs of all axes.
std::vector<std::int64_t> outputs_of(const std::vector<WindowAxis>& axes);

}  // namespace sectionflow
