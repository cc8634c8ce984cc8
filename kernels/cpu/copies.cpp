#include "kernels/cpu/copies.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "kernels/convert_element.h"
#include "kernels/cpu/broadcast_loop.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

constexpr std::int64_t kGrainBytes = std::int64_t{1} << 18;

#if defined(__x86_64__)
/// `some(first, count)` for bytes that are no whole vectors of `to`, `vector(first)` for the others.
template <class Some, class Vector>
void by_vectors(void* to, std::size_t num_bytes, const Some& some, const Vector& vector) {
  constexpr std::size_t kVector = sizeof(__m128i);
  const std::size_t head = std::min(num_bytes, (0 - reinterpret_cast<std::uintptr_t>(to)) % kVector);
  if (head > 0) some(0, head);
  std::size_t first = head;
  for (; num_bytes - first >= kVector; first += kVector) vector(first);
  if (first < num_bytes) some(first, num_bytes - first);
}
#endif

template <class T>
void copy_row(T* y, const T* x, std::int64_t count, std::int64_t step) {
  if (step == 1) {
    std::memcpy(y, x, static_cast<std::size_t>(count) * sizeof(T));
  } else if (step == 0) {
    std::fill(y, y + count, *x);
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i * step];
  }
}

/// A walk over the rows of y in order.
class BorderedRows {
 public:
  explicit BorderedRows(const BorderedCopy& copy)
      : num_elements_(copy.y.shape.num_elements()), merged_(copy), rank_(merged_.rank) {}

  template <class T>
  void run(T* y, const T* x, T value) const {
    parallel_for(num_elements_, kParallelGrain,
                 [&](std::int64_t begin, std::int64_t end) { walk(begin, end, y, x, value); });
  }

 private:
  using Axis = BorderedAxes::Axis;
  using Position = std::array<std::int64_t, Shape::kMaxRank>;

  template <class T>
  void walk(std::int64_t begin, std::int64_t end, T* y, const T* x, T value) const {
    const Axis& last = merged_.axes[rank_ - 1];
    Position position{};
    std::int64_t rest = begin / last.y_dim;
    for (int i = rank_ - 2; i >= 0; --i) {
      position[i] = rest % merged_.axes[i].y_dim;
      rest /= merged_.axes[i].y_dim;
    }
    std::int64_t from = begin % last.y_dim;
    while (begin < end) {
      const std::int64_t to = std::min(last.y_dim, from + end - begin);
      fill_row(y + begin - from, x_row(position, x), from, to, value);
      begin += to - from;
      from = 0;
      next_row(position);
    }
  }

  /// x's elements in the row at `position`; nullptr in the border.
  template <class T>
  const T* x_row(const Position& position, const T* x) const {
    std::int64_t row = 0;
    for (int i = 0; i < rank_ - 1; ++i) {
      const std::int64_t in_x = position[i] - merged_.axes[i].before;
      if (in_x < 0 || in_x >= merged_.axes[i].x_dim) return nullptr;
      row = row * merged_.axes[i].x_dim + in_x;
    }
    return x + row * merged_.axes[rank_ - 1].x_dim;
  }

  /// Elements [from, to) of a row of y.
  template <class T>
  void fill_row(T* y, const T* x, std::int64_t from, std::int64_t to, T value) const {
    const Axis& last = merged_.axes[rank_ - 1];
    const std::int64_t x_end = last.before + last.x_dim;
    const std::int64_t begin = x == nullptr ? to : std::clamp(last.before, from, to);
    const std::int64_t end = x == nullptr ? to : std::clamp(x_end, begin, to);
    std::fill_n(y + from, begin - from, value);
    if (begin < end) std::copy(x + begin - last.before, x + end - last.before, y + begin);
    std::fill_n(y + end, to - end, value);
  }

  void next_row(Position& position) const {
    for (int i = rank_ - 2; i >= 0; --i) {
      if (++position[i] < merged_.axes[i].y_dim) return;
      position[i] = 0;
    }
  }

  std::int64_t num_elements_;
  BorderedAxes merged_;
  int rank_;
};

}  // namespace

#if defined(__x86_64__)
PastCaches::~PastCaches() {
  _mm_sfence();
}
void PastCaches::copy(void* to, const void* from, std::size_t num_bytes) const {
  auto* y = static_cast<std::byte*>(to);
  const auto* x = static_cast<const std::byte*>(from);
  by_vectors(
      to, num_bytes, [=](std::size_t first, std::size_t count) { std::memcpy(y + first, x + first, count); },
      [=](std::size_t first) {
        const __m128i loaded = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + first));
        _mm_stream_si128(reinterpret_cast<__m128i*>(y + first), loaded);
      });
}
void PastCaches::zeros(void* to, std::size_t num_bytes) const {
  auto* y = static_cast<std::byte*>(to);
  by_vectors(
      to, num_bytes, [=](std::size_t first, std::size_t count) { std::memset(y + first, 0, count); },
      [=](std::size_t first) { _mm_stream_si128(reinterpret_cast<__m128i*>(y + first), _mm_setzero_si128()); });
}
#else
PastCaches::~PastCaches() = default;
void PastCaches::copy(void* to, const void* from, std::size_t num_bytes) const {
  std::memcpy(to, from, num_bytes);
}
void PastCaches::zeros(void* to, std::size_t num_bytes) const {
  std::memset(to, 0, num_bytes);
}
#endif

void copy_bytes(void* to, const void* from, std::size_t num_bytes) {
  if (to == from) return;
  parallel_for(static_cast<std::int64_t>(num_bytes), kGrainBytes, [=](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                static_cast<std::size_t>(end - begin));
  });
}
void zero_bytes(void* to, std::size_t num_bytes) {
  parallel_for(static_cast<std::int64_t>(num_bytes), kGrainBytes, [=](std::int64_t begin, std::int64_t end) {
    std::memset(static_cast<std::byte*>(to) + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

std::unique_ptr<Kernel> strided_copy_kernel(const StridedCopy& copy) {
  if (copy.changes_nothing()) {
    return copy_kernel(static_cast<std::size_t>(copy.y.num_elements()) * copy.element_bytes);
  }
  const BroadcastLoop<1> loop(copy.y, {copy.strides});
  return with_element_of(copy.element_bytes, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel([loop, first = copy.first](const KernelArguments& arguments) {
      const T* x = static_cast<const T*>(arguments.inputs[0]) + first;
      T* y = static_cast<T*>(arguments.outputs[0]);
      loop.for_each_row([&](std::int64_t begin, std::int64_t count, const std::array<std::int64_t, 1>& offsets) {
        copy_row(y + begin, x + offsets[0], count, loop.step_in_row(0));
      });
    });
  });
}

std::unique_ptr<Kernel> bordered_copy_kernel(const BorderedCopy& copy) {
  if (copy.x == copy.y.shape) {
    return copy_kernel(copy.y.bytes());
  }
  return with_element_type(copy.y.dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel(
        [rows = BorderedRows(copy), value = convert_element<T>(copy.value)](const KernelArguments& arguments) {
          rows.run(static_cast<T*>(arguments.outputs[0]), static_cast<const T*>(arguments.inputs[0]), value);
        });
  });
}

}  // namespace sectionflow
