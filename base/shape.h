#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/export.h"

namespace SF_API sectionflow {

/// The dimension of a shape that a feed decides, as in `{kDynamic, 28, 28, 1}`.
inline constexpr std::int64_t kDynamic = -1;

/// The dimensions of a tensor, outermost first. Rank 0 is a scalar. A dimension is >= 0, or kDynamic while unknown.
/// Throws: ShapeError for other negative dimensions and for ranks above 16.
class Shape {
 public:
  static constexpr int kMaxRank = 16;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::vector<std::int64_t>(dims)) {}
  explicit Shape(std::vector<std::int64_t> dims);

  int rank() const { return static_cast<int>(dims_.size()); }
  /// Dimension `axis`; negative axes count from the end. Throws: ShapeError outside the rank.
  std::int64_t dim(int axis) const;
  std::int64_t operator[](int axis) const { return dim(axis); }
  const std::vector<std::int64_t>& dims() const { return dims_; }

  /// Whether no dimension is kDynamic.
  bool is_static() const;
  /// Product of the dimensions. Throws: ShapeError when a dimension is unknown or the product overflows.
  std::int64_t num_elements() const;

  /// "[250,28,28,1]"; an unknown dimension prints as "?".
  std::string text() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<std::int64_t> dims_;
};

/// A dimension as Shape::text writes it: "?" while it is unknown.
std::string dim_text(std::int64_t dim);

/// As text: "[32,28,28,1]", with ? for unknown dimensions.
std::ostream& operator<<(std::ostream& stream, const Shape& shape);

/// Whether a tensor of shape `actual` may stand where `declared` is asked for: equal but for declared unknowns.
bool matches(const Shape& actual, const Shape& declared);

/// The shape that both broadcast to by aligning trailing dimensions; unknown dimensions meet only themselves or 1.
/// Throws: ShapeError (starting with `where`) when the two do not fit.
Shape broadcast_shapes(const Shape& a, const Shape& b, const std::string& where);

/// `axis` counted from the front. Throws: ShapeError naming `where` when it lies outside `rank`.
int normalized_axis(int axis, int rank, const std::string& where);

}  // namespace sectionflow
