#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/convert_element.h"
#include "kernels/copies.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/positions.h"
#include "kernels/strides.h"

namespace sectionflow::gpu {

/// y[i] = x[the offset of i], a thread an element.
template <class T>
struct StridedRead {
  T* y;
  const T* x;
  int rank;
  Divisor dims[Shape::kMaxRank];
  std::int64_t strides[Shape::kMaxRank];

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t rest = i, offset = 0;
    for (int axis = rank - 1; axis > 0; --axis) offset += dims[axis].cut(rest) * strides[axis];
    y[i] = x[offset + rest * strides[0]];
  }
};

/// Whether all of some numbers of elements are whole multiples of `factor`.
inline bool are_multiples(const MergedAxes<1>& axes, std::int64_t first, std::int64_t factor) {
  bool all = axes.last().strides[0] == 1 && axes.last().dim % factor == 0 && first % factor == 0;
  for (int i = 0; i + 1 < axes.rank; ++i) all = all && axes.axes[i].strides[0] % factor == 0;
  return all;
}

/// The kernel that computes output 0 from input 0 so; in place where that changes nothing. Rows that stay together are
/// moved in elements of up to 16 bytes.
inline std::unique_ptr<Kernel> strided_copy_kernel(const StridedCopy& copy) {
  if (copy.changes_nothing()) {
    return copy_kernel(static_cast<std::size_t>(copy.y.num_elements()) * copy.element_bytes);
  }
  MergedAxes<1> axes(copy.y, {copy.strides});
  std::size_t element_bytes = copy.element_bytes;
  std::int64_t first = copy.first;
  while (element_bytes < 16 && are_multiples(axes, first, 2)) {
    element_bytes *= 2;
    first /= 2;
    axes.num_elements /= 2;
    axes.axes[axes.rank - 1].dim /= 2;
    for (int i = 0; i + 1 < axes.rank; ++i) axes.axes[i].strides[0] /= 2;
  }
  return with_element_of(element_bytes, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    StridedRead<T> body{nullptr, nullptr, axes.rank, {}, {}};
    for (int i = 0; i < axes.rank; ++i) {
      body.dims[i] = Divisor(axes.axes[i].dim);
      body.strides[i] = axes.axes[i].strides[0];
    }
    return function_kernel([body, first, count = axes.num_elements](const KernelArguments& arguments) {
      StridedRead<T> placed = body;
      placed.y = static_cast<T*>(arguments.outputs[0]);
      placed.x = static_cast<const T*>(arguments.inputs[0]) + first;
      launch_each(arguments.queue, count, placed);
    });
  });
}

/// y[i] = x's element at the same place of its box, or `value`: a thread an element of y.
template <class T>
struct BorderedWrite {
  T* y;
  const T* x;
  T value;
  BorderedAxes axes;
  Divisor dims[Shape::kMaxRank];

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t rest = i, offset = 0, step = 1;
    bool is_inside = true;
    for (int axis = axes.rank - 1; axis >= 0; --axis) {
      const std::int64_t at = (axis > 0 ? dims[axis].cut(rest) : rest) - axes.axes[axis].before;
      is_inside = is_inside && at >= 0 && at < axes.axes[axis].x_dim;
      offset += at * step;
      step *= axes.axes[axis].x_dim;
    }
    y[i] = is_inside ? x[offset] : value;
  }
};

/// Some bytes that begin with any number of whole elements of one value.
struct RepeatedValue {
  alignas(16) std::byte bytes[16];

  template <class T>
  explicit RepeatedValue(T value) {
    for (std::size_t at = 0; at < sizeof(bytes); at += sizeof(T)) std::memcpy(bytes + at, &value, sizeof(T));
  }
  template <class Wide>
  Wide as() const {
    Wide wide;
    std::memcpy(&wide, bytes, sizeof(Wide));
    return wide;
  }
};

/// The kernel that computes output 0 from input 0 so; in place where x is all of y. Rows whose border begins and ends
/// at whole ones are written in elements of up to 16 bytes.
inline std::unique_ptr<Kernel> bordered_copy_kernel(const BorderedCopy& copy) {
  if (copy.x == copy.y.shape) return copy_kernel(copy.y.bytes());
  const auto value = with_element_type(copy.y.dtype, [&](auto element) -> RepeatedValue {
    return RepeatedValue(convert_element<decltype(element)>(copy.value));
  });
  BorderedAxes axes(copy);
  BorderedAxes::Axis& row = axes.axes[axes.rank - 1];
  std::size_t element_bytes = dtype_bytes(copy.y.dtype);
  std::int64_t count = copy.y.shape.num_elements();
  while (element_bytes < 16 && row.y_dim % 2 == 0 && row.x_dim % 2 == 0 && row.before % 2 == 0) {
    element_bytes *= 2;
    count /= 2;
    row = {row.y_dim / 2, row.x_dim / 2, row.before / 2};
  }
  return with_element_of(element_bytes, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    BorderedWrite<T> body{nullptr, nullptr, value.template as<T>(), axes, {}};
    for (int i = 0; i < axes.rank; ++i) body.dims[i] = Divisor(axes.axes[i].y_dim);
    return function_kernel([body, count](const KernelArguments& arguments) {
      BorderedWrite<T> placed = body;
      placed.y = static_cast<T*>(arguments.outputs[0]);
      placed.x = static_cast<const T*>(arguments.inputs[0]);
      launch_each(arguments.queue, count, placed);
    });
  });
}

}  // namespace sectionflow::gpu
