#include "base/random_formulas.h"
#include "graph/ops/dropout.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/formulas/random.h"

namespace sectionflow {
namespace {

/// Four elements share a block of random words: y = x where kept, else 0.
template <class T>
struct DropFour {
  const RandomState* state;
  const T* x;
  T* y;
  std::int64_t count;
  std::uint32_t ordinal;
  formulas::Drop drop;

  SF_HOST_DEVICE void operator()(std::int64_t block) const {
    const RandomAddress address{state->seed, ordinal, static_cast<std::uint32_t>(state->cycle)};
    auto words = philox::counters_of<1>(address, static_cast<std::uint64_t>(block));
    philox::ten_rounds(words, address.seed);
    const std::uint32_t of_elements[] = {words.c0[0], words.c1[0], words.c2[0], words.c3[0]};
    if (4 * block + 4 <= count) {
      auto four = gpu::load_pack<4>(x + 4 * block);
      for (int i = 0; i < 4; ++i) four.values[i] = dropped(four.values[i], of_elements[i]);
      gpu::store_pack(y + 4 * block, four);
    } else {
      for (std::int64_t i = 4 * block; i < count; ++i) y[i] = dropped(x[i], of_elements[i - 4 * block]);
    }
  }
  SF_HOST_DEVICE T dropped(float value, std::uint32_t word) const { return static_cast<T>(drop(value, word)); }
};

std::unique_ptr<Kernel> make_of(const KernelRequest& request, float rate, std::uint32_t ordinal) {
  if (!host_boolean(request, 1)) return gpu::copy_kernel(request.outputs[0].bytes());
  const std::int64_t count = request.outputs[0].shape.num_elements();
  return with_stored_type(request.outputs[0].dtype, [=](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel(
        [=](const KernelArguments& arguments) {
          gpu::launch_each(arguments.queue, (count + 3) / 4,
                           DropFour<T>{arguments.random_state, static_cast<const T*>(arguments.inputs[0]),
                                       static_cast<T*>(arguments.outputs[0]), count, ordinal, formulas::Drop(rate)});
        },
        {.in_place = {{0, 0}}});
  });
}

std::unique_ptr<Kernel> make_dropout(const KernelRequest& request) {
  return make_of(request, request.node.options<DropoutOptions>().rate, request.node.random_ordinal());
}
std::unique_ptr<Kernel> make_dropout_grad(const KernelRequest& request) {
  const auto& options = request.node.options<DropoutGradOptions>();
  return make_of(request, options.rate, options.ordinal);
}

}  // namespace

void add_dropout_cuda_kernels(KernelRegistry& registry) {
  registry.add("dropout", make_dropout, Bf16::native);
  registry.add("dropout_grad", make_dropout_grad, Bf16::native);
}

}  // namespace sectionflow
