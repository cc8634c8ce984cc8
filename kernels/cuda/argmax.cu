#include <bit>
#include <cstdint>

#include "graph/ops/argmax.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/group_reduce.h"
#include "kernels/cuda/stored_type.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

/// A number that is larger for the element that is rather the result: by value, NaN above all, then by the lower
/// index. 0 stands below all of them.
SF_HOST_DEVICE std::uint64_t rank_of(float x, std::int64_t index) {
  const auto bits = std::bit_cast<std::uint32_t>(x == 0.0F ? 0.0F : x);  // zeros of both signs are equal
  // Bits of positive numbers are ordered as these are; those of negative ones the other way round.
  const std::uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  const std::uint32_t value = x != x ? 0xFFFFFFFFU : ordered;
  return (static_cast<std::uint64_t>(value) << 32) | (0xFFFFFFFFU - static_cast<std::uint32_t>(index));
}

/// A group of threads a row.
template <class T>
struct ArgmaxRows {
  const T* x;       // [N, C]
  std::int32_t* y;  // [N]
  std::int64_t num_rows, num_classes;
  int group;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const std::int64_t row = thread.block() * (thread.block_size() / group) + thread.index() / group;
    const int lane = thread.index() % group;
    std::uint64_t best = 0;
    for (std::int64_t c = lane; row < num_rows && c < num_classes; c += group) {
      best = gpu::Larger()(best, rank_of(x[row * num_classes + c], c));
    }
    best = gpu::group_reduce(thread, best, group, 0, gpu::Larger());
    if (lane == 0 && row < num_rows) {
      y[row] = static_cast<std::int32_t>(0xFFFFFFFFU - static_cast<std::uint32_t>(best));
    }
  }
};

std::unique_ptr<Kernel> make_argmax(const KernelRequest& request) {
  constexpr int kThreads = 256;
  const std::int64_t num_rows = request.outputs[0].shape.num_elements();
  const std::int64_t num_classes = request.inputs[0].shape[-1];
  const int group = gpu::group_for(num_classes, kThreads);
  return gpu::with_stored_type(request.inputs[0].dtype, [=](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel([=](const KernelArguments& arguments) {
      gpu::launch_blocks(arguments.queue,
                         {.blocks = gpu::blocks_for(num_rows, kThreads / group),
                          .threads = kThreads,
                          .shared_bytes = gpu::reduce_bytes<std::uint64_t>()},
                         ArgmaxRows<T>{static_cast<const T*>(arguments.inputs[0]),
                                       static_cast<std::int32_t*>(arguments.outputs[0]), num_rows, num_classes, group});
    });
  });
}

}  // namespace

void add_argmax_cuda_kernels(KernelRegistry& registry) {
  registry.add("argmax", make_argmax, Bf16::native);
}

}  // namespace sectionflow
