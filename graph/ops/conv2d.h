#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace sectionflow {

/// How many zeros surround an image. `same` gives ceil(size / stride) outputs, with the odd zero after the image (as
/// TensorFlow does); `valid` none; explicit numbers are taken as they stand.
class Padding {
 public:
  enum class Kind { same, valid, fixed };
  static const Padding same;
  static const Padding valid;

  constexpr Padding() = default;
  /// The same number of zeros before and after: {height, width}.
  constexpr Padding(std::int64_t height, std::int64_t width) : Padding({height, width}, {height, width}) {}
  /// Zeros before (top, left) and after (bottom, right).
  constexpr Padding(std::array<std::int64_t, 2> before, std::array<std::int64_t, 2> after)
      : kind_(Kind::fixed), before_(before), after_(after) {}

  Kind kind() const { return kind_; }
  const std::array<std::int64_t, 2>& before() const { return before_; }
  const std::array<std::int64_t, 2>& after() const { return after_; }

 private:
  constexpr explicit Padding(Kind kind) : kind_(kind) {}
  Kind kind_ = Kind::same;
  std::array<std::int64_t, 2> before_ = {0, 0};
  std::array<std::int64_t, 2> after_ = {0, 0};
};
inline constexpr Padding Padding::same{Padding::Kind::same};
inline constexpr Padding Padding::valid{Padding::Kind::valid};

struct Conv2dOptions {
  std::array<std::int64_t, 2> stride = {1, 1};  ///< {height, width}, >= 1
  Padding padding = Padding::same;
};

/// Two-dimensional cross-correlation, channels last. Shapes: x [N, H, W, C], w [KH, KW, C, F], y [N, OH, OW, F]. f32.
/// Throws: ShapeError when ranks or channels do not fit, or the kernel is larger than the padded image.
Value conv2d(Value x, Value w, Conv2dOptions options = {}, Where where = Where::here());
/// dx from dy. Reads only the shape of `x`.
Value conv2d_backward_input(Value dy, Value w, Value x, Conv2dOptions options);
/// dw from dy. Reads only the shape of `w`.
Value conv2d_backward_filter(Value dy, Value x, Value w, Conv2dOptions options);

/// All numbers of one convolution, worked out from the shapes. H and W known.
struct Conv2dGeometry {
  std::int64_t batch, height, width, channels;        // x [batch, height, width, channels]
  std::int64_t kernel_height, kernel_width, filters;  // w [kernel_height, kernel_width, channels, filters]
  std::int64_t out_height, out_width;                 // y [batch, out_height, out_width, filters]
  std::array<std::int64_t, 2> stride, pad_before, pad_after;
};
/// Throws: ShapeError (starting with `label`).
Conv2dGeometry conv2d_geometry(const Shape& x, const Shape& w, const Conv2dOptions& options, const std::string& label);

}  // namespace sectionflow
