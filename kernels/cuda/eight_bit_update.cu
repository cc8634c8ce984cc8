#include <cmath>
#include <cstdint>

#include "graph/ops/eight_bit_update.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/joint.h"
#include "kernels/formulas/eight_bit_update.h"
#include "kernels/formulas/update.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

namespace sectionflow {
namespace {

/// A slot, by a block of threads for each block of elements.
template <class Code>
struct CodedSlot {
  std::uint8_t* codes;
  float* scales;

  SF_HOST_DEVICE float decoded(std::int64_t block, std::int64_t i) const {
    return scales[block] * Code::decoded(codes[i]);
  }
  /// `largest`: the largest magnitude of the block, which all of its threads know.
  SF_HOST_DEVICE void encode(std::int64_t block, std::int64_t i, float x, float largest) const {
    if (i == block * kSlotBlock) scales[block] = largest;
    codes[i] = static_cast<std::uint8_t>(formulas::encoded<Code>(x, formulas::divisor_of(largest)));
  }
};

/// A thread an element. What the variable is stepped by is computed once a block: powers in double are dear.
template <class Options, class G>
struct CodedAdamPart {
  static constexpr int kThreads = kSlotBlock;
  static constexpr std::size_t kOfRoots = gpu::reduce_bytes<float>();
  static constexpr std::size_t kOfStep = 2 * gpu::reduce_bytes<float>();
  static constexpr std::size_t kSharedBytes = kOfStep + 3 * sizeof(float);
  float* variable;
  CodedSlot<formulas::SignedCode> m_slot;
  CodedSlot<formulas::RootCode> root_slot;
  const G* gradient;
  const float* learning_rate;
  const std::int64_t* steps;
  Options options;
  std::int64_t count;

  std::int64_t num_blocks() const { return (count + kSlotBlock - 1) / kSlotBlock; }

  template <class Thread>
  SF_HOST_DEVICE void run(Thread& thread, std::int64_t block) const {
    auto shared = thread.template shared<float>(kOfStep, 3);
    if (thread.index() == 0) {
      const formulas::ScaledStep step = formulas::adam_step(options, *learning_rate, *steps);
      shared[0] = step.rate;
      shared[1] = step.epsilon;
      shared[2] = step.kept;
    }
    const std::int64_t i = block * kSlotBlock + thread.index();
    const bool is_there = i < count;
    float m = 0, root = 0;
    if (is_there) {
      const formulas::Average first{options.beta1, 1.0F - options.beta1}, second{options.beta2, 1.0F - options.beta2};
      const float g = static_cast<float>(gradient[i]), before = root_slot.decoded(block, i);
      m = first(m_slot.decoded(block, i), g);
      root = formulas::held_finite(std::sqrt(second(before * before, g * g)));
    }
    // Their barriers stand between the reads of the old scales and the writes of the new ones.
    const formulas::LargerMagnitude larger;
    const float largest_m = gpu::block_reduce(thread, larger(0.0F, m), 0, larger);
    const float largest_root = gpu::block_reduce(thread, larger(0.0F, root), kOfRoots, larger);
    if (!is_there) return;
    const formulas::ScaledStep step{shared[0], shared[1], shared[2]};
    variable[i] = step(variable[i], m, root);
    m_slot.encode(block, i, m, largest_m);
    root_slot.encode(block, i, root, largest_root);
  }
};

template <class Options>
std::unique_ptr<Kernel> make_coded_adam(const KernelRequest& request) {
  constexpr std::size_t kGate = 9;  // behind the condition
  const int gate = request.inputs.size() > kGate ? static_cast<int>(kGate) : -1;
  const auto options = request.node.options<Options>();
  const std::int64_t count = request.inputs[0].shape.num_elements();
  return with_stored_type(request.inputs[5].dtype, [&](auto g) -> std::unique_ptr<Kernel> {
    using G = decltype(g);
    return gpu::gated(gate, [options, count](const KernelArguments& arguments) {
      return CodedAdamPart<Options, G>{
          static_cast<float*>(arguments.updated[0]),
          {static_cast<std::uint8_t*>(arguments.updated[1]), static_cast<float*>(arguments.updated[2])},
          {static_cast<std::uint8_t*>(arguments.updated[3]), static_cast<float*>(arguments.updated[4])},
          static_cast<const G*>(arguments.inputs[5]),
          static_cast<const float*>(arguments.inputs[6]),
          static_cast<const std::int64_t*>(arguments.inputs[7]),
          options,
          count};
    });
  });
}

}  // namespace

void add_eight_bit_update_cuda_kernels(KernelRegistry& registry) {
  registry.add("apply_adam_8bit", make_coded_adam<AdamOptions>, Bf16::native);
  registry.add("apply_adam_w_8bit", make_coded_adam<AdamWOptions>, Bf16::native);
}

}  // namespace sectionflow
