#include "base/shape.h"

#include <algorithm>
#include <ostream>

#include "base/checked_arithmetic.h"
#include "base/error.h"

namespace sectionflow {

Shape::Shape(std::vector<std::int64_t> dims) : dims_(std::move(dims)) {
  SF_CHECK(dims_.size() <= kMaxRank, ShapeError, "shape of rank ", dims_.size(), "; at most ", kMaxRank,
           " is supported");
  for (std::int64_t dim : dims_) {
    SF_CHECK(dim >= 0 || dim == kDynamic, ShapeError, "shape ", text(), " has the dimension ", dim,
             "; a dimension is >= 0, or -1 where the feed decides");
  }
}

std::int64_t Shape::dim(int axis) const {
  // The words of an error are made where there is one: shapes are asked in every loop.
  const int from_front = axis < 0 ? axis + rank() : axis;
  if (from_front < 0 || from_front >= rank()) normalized_axis(axis, rank(), "Shape::dim of " + text());
  return dims_[static_cast<std::size_t>(from_front)];
}

bool Shape::is_static() const {
  return std::find(dims_.begin(), dims_.end(), kDynamic) == dims_.end();
}

std::int64_t Shape::num_elements() const {
  SF_CHECK(is_static(), ShapeError, "number of elements of ", text(), " is unknown before a feed decides it");
  std::int64_t product = 1;
  for (std::int64_t dim : dims_) product = checked_multiply(product, dim);
  return product;
}

std::string Shape::text() const {
  std::string result = "[";
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    if (i > 0) result += ',';
    result += dim_text(dims_[i]);
  }
  return result + "]";
}

std::string dim_text(std::int64_t dim) {
  return dim == kDynamic ? "?" : std::to_string(dim);
}

std::ostream& operator<<(std::ostream& stream, const Shape& shape) {
  return stream << shape.text();
}

bool matches(const Shape& actual, const Shape& declared) {
  if (actual.rank() != declared.rank()) return false;
  for (int i = 0; i < actual.rank(); ++i) {
    if (declared[i] != kDynamic && declared[i] != actual[i]) return false;
  }
  return true;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const std::string& where) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<std::int64_t> dims(rank);
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t dim_a = i <= a.rank() ? a[-i] : 1;
    const std::int64_t dim_b = i <= b.rank() ? b[-i] : 1;
    SF_CHECK(dim_a == dim_b || dim_a == 1 || dim_b == 1, ShapeError, where, ": shapes ", a, " and ", b,
             " do not broadcast: dimension ", -i, " is ", dim_text(dim_a), " against ", dim_text(dim_b),
             ", wanted equal or 1");
    dims[rank - i] = dim_a == 1 ? dim_b : dim_a;
  }
  return Shape(std::move(dims));
}

int normalized_axis(int axis, int rank, const std::string& where) {
  SF_CHECK(axis >= -rank && axis < rank, ShapeError, where, ": axis ", axis, " lies outside rank ", rank);
  return axis < 0 ? axis + rank : axis;
}

}  // namespace sectionflow
