#include <numeric>

#include "graph/ops/parts.h"
#include "kernels/copies.h"
#include "kernels/cuda/copies.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/positions.h"
#include "kernels/function_kernel.h"
#include "kernels/joined_parts.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_slice(const KernelRequest& request) {
  return gpu::strided_copy_kernel(
      box_of(request.inputs[0], request.node.options<SliceOptions>().begin, request.outputs[0].shape));
}

std::unique_ptr<Kernel> make_slice_grad(const KernelRequest& request) {
  return gpu::bordered_copy_kernel(
      {.y = request.outputs[0], .x = request.inputs[0].shape, .before = request.node.options<SliceOptions>().begin});
}

std::unique_ptr<Kernel> make_pad(const KernelRequest& request) {
  const auto& options = request.node.options<PadOptions>();
  return gpu::bordered_copy_kernel(
      {.y = request.outputs[0], .x = request.inputs[0].shape, .before = options.before, .value = options.value});
}

std::unique_ptr<Kernel> make_pad_grad(const KernelRequest& request) {
  return gpu::strided_copy_kernel(
      box_of(request.inputs[0], request.node.options<PadOptions>().before, request.outputs[0].shape));
}

using gpu::Divisor;

/// Rows of `from`, or zeros where it is null, in rows of `to`. Steps in elements.
template <class T>
struct CopyRows {
  T* to;
  const T* from;
  std::int64_t to_step, from_step;
  Divisor row_elements;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t row = i;
    const std::int64_t at = row_elements.cut(row);
    to[row * to_step + at] = from == nullptr ? T{} : from[row * from_step + at];
  }
};

/// One part's rows, [num_rows, bytes], beside those of the joined tensor.
struct PartRows {
  std::int64_t num_rows, bytes, joined_bytes, offset;

  /// Copies between the part's memory, which may be null for zeros, and the joined tensor's.
  void launch(void* queue, void* joined, void* part, bool joins) const {
    const std::int64_t together = std::gcd(std::gcd(bytes, joined_bytes), std::gcd(offset, std::int64_t{16}));
    with_element_of(static_cast<std::size_t>(together), [&](auto element) {
      using T = decltype(element);
      const std::int64_t size = sizeof(T), part_step = bytes / size, joined_step = joined_bytes / size;
      T* in_joined = static_cast<T*>(joined) + offset / size;
      T* in_part = static_cast<T*>(part);
      const CopyRows<T> body = joins ? CopyRows<T>{in_joined, in_part, joined_step, part_step, Divisor(part_step)}
                                     : CopyRows<T>{in_part, in_joined, part_step, joined_step, Divisor(part_step)};
      gpu::launch_each(queue, num_rows * part_step, body);
    });
  }
};

PartRows rows_of(const JoinedParts& joined, const JoinedParts::Part& part) {
  return {joined.num_rows, part.bytes, joined.row_bytes, part.offset};
}

/// Output 0 from its parts, which are the inputs from `first_input` on.
std::unique_ptr<Kernel> make_join(const JoinedParts& joined, std::size_t first_input) {
  return function_kernel([joined, first_input](const KernelArguments& arguments) {
    for (const JoinedParts::Part& part : joined.parts) {
      const void* x = part.tensor == JoinedParts::kNoTensor
                          ? nullptr
                          : arguments.inputs[first_input + static_cast<std::size_t>(part.tensor)];
      rows_of(joined, part).launch(arguments.queue, arguments.outputs[0], const_cast<void*>(x), true);
    }
  });
}

/// The outputs from input 0, of which they are parts.
std::unique_ptr<Kernel> make_cut(const JoinedParts& joined) {
  return function_kernel([joined](const KernelArguments& arguments) {
    for (const JoinedParts::Part& part : joined.parts) {
      if (part.tensor == JoinedParts::kNoTensor) continue;
      rows_of(joined, part)
          .launch(arguments.queue, const_cast<void*>(arguments.inputs[0]),
                  arguments.outputs[static_cast<std::size_t>(part.tensor)], false);
    }
  });
}

}  // namespace

void add_parts_cuda_kernels(KernelRegistry& registry) {
  registry.add("slice", make_slice, Bf16::native);
  registry.add("slice_grad", make_slice_grad, Bf16::native);
  registry.add("pad", make_pad, Bf16::native);
  registry.add("pad_grad", make_pad_grad, Bf16::native);
  add_joined_kernels<make_join, make_cut, gpu::copy_kernel>(registry);
}

}  // namespace sectionflow
