#include "graph/ops/random.h"

#include <algorithm>

#include "device/parallel.h"
#include "graph/nodes/random.h"
#include "kernels/formulas/random.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

/// y = offset + scale draw(block), block by block; a tensor's last block may be used in part.
template <class Draw>
std::unique_ptr<Kernel> make_random_of(std::int64_t num_elements, float offset, float scale) {
  return function_kernel([=](const KernelArguments& arguments) {
    float* y = static_cast<float*>(arguments.outputs[0]);
    const RandomAddress address = arguments.random;
    constexpr std::int64_t kGrainBlocks = 256, kBlock = formulas::kRandomBlock;
    parallel_for((num_elements + kBlock - 1) / kBlock, kGrainBlocks, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const formulas::Four numbers = Draw()(address, static_cast<std::uint64_t>(block));
        const std::int64_t count = std::min(kBlock, num_elements - block * kBlock);
        for (std::int64_t i = 0; i < count; ++i) y[block * kBlock + i] = offset + scale * numbers.values[i];
      }
    });
  });
}

std::unique_ptr<Kernel> make_random(const KernelRequest& request) {
  const auto& options = request.node.options<RandomOptions>();
  const std::int64_t num_elements = request.outputs[0].shape.num_elements();
  switch (options.distribution) {
    case Distribution::normal:
      return make_random_of<formulas::DrawNormals>(num_elements, options.a, options.b);
    case Distribution::truncated_normal:
      return make_random_of<formulas::DrawTruncatedNormals>(num_elements, options.a, options.b);
    case Distribution::uniform:
      return make_random_of<formulas::DrawUniforms>(num_elements, options.a, options.b - options.a);
  }
  return nullptr;
}

}  // namespace

void add_random_cpu_kernels(KernelRegistry& registry) {
  registry.add("random", make_random);
}

}  // namespace sectionflow
