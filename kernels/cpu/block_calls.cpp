#include "kernels/cpu/block_calls.h"

#include <algorithm>

namespace sectionflow {

using dnnl::memory;

memory::desc within(std::int64_t rows, std::int64_t columns, std::int64_t step, bool is_transposed, Dtype dtype) {
  return {{rows, columns}, onednn_type(dtype), is_transposed ? memory::dims{1, step} : memory::dims{step, 1}};
}

std::size_t BlockCalls::scratchpad_bytes() const {
  std::size_t most = 0;
  for (const OneDnnCall* call : all()) most = std::max(most, call->scratchpad_bytes());
  return most;
}

std::size_t BlockCalls::library_bytes() const {
  std::size_t sum = 0;
  for (const OneDnnCall* call : all()) sum += call->library_bytes();
  return sum;
}

BlockCalls block_calls(OneDnn& onednn, const memory::desc& a, const memory::desc& b, const memory::desc& y) {
  const auto writing = describe_matmul(onednn, a, in_any_order(b), y);
  const memory::desc ordered_b = writing.weights_desc();
  const auto call = [&](const dnnl::matmul::primitive_desc& description) {
    return OneDnnCall(onednn, description, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, ordered_b}, {DNNL_ARG_DST, y}});
  };
  BlockCalls calls{.write = call(writing), .add = call(describe_matmul(onednn, a, ordered_b, y, true))};
  if (ordered_b != b) {
    calls.order_b = make_reorder(onednn, b, ordered_b);
    calls.b_bytes = ordered_b.get_size();
  }
  return calls;
}

}  // namespace sectionflow
