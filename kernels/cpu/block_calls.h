#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/onednn_call.h"

namespace sectionflow {

/// A dimension in tiles of one size, but for the last, which may be shorter.
struct Tiles {
  std::int64_t dim = 0, size = 0;

  bool is_cut() const { return size < dim; }
  std::int64_t length(std::int64_t begin) const { return size < dim - begin ? size : dim - begin; }
  std::int64_t rest() const { return dim % size; }
};

/// `rows` x `columns` elements within a matrix whose rows, or columns if it is transposed, lie `step` apart.
dnnl::memory::desc within(std::int64_t rows, std::int64_t columns, std::int64_t step, bool is_transposed = false,
                          Dtype dtype = Dtype::f32);

/// The product of a block, written to y or added to it, and the copies that bring its factors into oneDNN's order; what
/// lies in order already needs none.
struct BlockCalls {
  OneDnnCall write, add, order_a{}, order_b{};
  std::size_t b_bytes = 0;  ///< of b in order; 0: it lies so

  std::array<const OneDnnCall*, 4> all() const { return {&write, &add, &order_a, &order_b}; }
  std::size_t scratchpad_bytes() const;
  std::size_t library_bytes() const;
  /// b as the products read it, `room` where it has to be copied.
  const void* in_order(const void* b, void* room, void* scratchpad) {
    if (!order_b.valid()) return b;
    order_b.launch({b, room}, scratchpad);
    return room;
  }
};

/// Calls for y = a b or y += a b with these layouts; b is ordered as oneDNN likes it, from how it lies.
BlockCalls block_calls(OneDnn& onednn, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                       const dnnl::memory::desc& y);

}  // namespace sectionflow
