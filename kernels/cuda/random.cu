#include <cstdint>

#include "graph/nodes/random.h"
#include "graph/ops/random.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/formulas/random.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

/// y = offset + scale draw(block), a block a thread; a tensor's last block may be used in part.
template <class Draw>
struct FillBlock {
  const RandomState* state;
  float* y;
  std::int64_t count;
  std::uint32_t ordinal;
  float offset, scale;

  SF_HOST_DEVICE void operator()(std::int64_t block) const {
    const RandomAddress address{state->seed, ordinal, static_cast<std::uint32_t>(state->cycle)};
    const formulas::Four drawn = Draw()(address, static_cast<std::uint64_t>(block));
    gpu::Pack<float, formulas::kRandomBlock> numbers;
    for (int i = 0; i < formulas::kRandomBlock; ++i) numbers.values[i] = offset + scale * drawn.values[i];
    const std::int64_t first = block * formulas::kRandomBlock;
    if (first + formulas::kRandomBlock <= count) {
      gpu::store_pack(y + first, numbers);
    } else {
      for (std::int64_t i = 0; first + i < count; ++i) y[first + i] = numbers.values[i];
    }
  }
};

template <class Draw>
std::unique_ptr<Kernel> make_random_of(const KernelRequest& request, float offset, float scale) {
  return function_kernel([=, count = request.outputs[0].shape.num_elements(),
                          ordinal = request.node.random_ordinal()](const KernelArguments& arguments) {
    gpu::launch_each(arguments.queue, (count + formulas::kRandomBlock - 1) / formulas::kRandomBlock,
                     FillBlock<Draw>{arguments.random_state, static_cast<float*>(arguments.outputs[0]), count, ordinal,
                                     offset, scale});
  });
}

std::unique_ptr<Kernel> make_random(const KernelRequest& request) {
  const auto& options = request.node.options<RandomOptions>();
  switch (options.distribution) {
    case Distribution::normal:
      return make_random_of<formulas::DrawNormals>(request, options.a, options.b);
    case Distribution::truncated_normal:
      return make_random_of<formulas::DrawTruncatedNormals>(request, options.a, options.b);
    case Distribution::uniform:
      return make_random_of<formulas::DrawUniforms>(request, options.a, options.b - options.a);
  }
  return nullptr;
}

}  // namespace

void add_random_cuda_kernels(KernelRegistry& registry) {
  registry.add("random", make_random);
}

}  // namespace sectionflow
