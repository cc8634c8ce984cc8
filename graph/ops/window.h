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

}  // namespace sectionflow
