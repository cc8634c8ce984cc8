#pragma once

#include <memory>

#include "kernels/cuda/joint.h"

namespace sectionflow::gpu {

/// A part that does nothing where the gate is shut.
template <class Part>
struct GatedPart {
  static constexpr int kThreads = Part::kThreads;
  static constexpr std::size_t kSharedBytes = Part::kSharedBytes;
  Part part;
  const bool* gate;

  std::int64_t num_blocks() const { return part.num_blocks(); }
  template <class Thread>
  SF_HOST_DEVICE void run(Thread& thread, std::int64_t block) const {
    // The same for every thread of a block: none waits for others at a barrier.
    if (*gate) part.run(thread, block);
  }
};

/// The kernel of `part_of(arguments)`, which happens where the input `gate` is true, or always where there is none.
template <class PartOf>
std::unique_ptr<Kernel> gated(int gate, PartOf part_of) {
  if (gate < 0) return joint_kernel(part_of);
  return joint_kernel([gate, part_of](const KernelArguments& arguments) {
    const bool* open = static_cast<const bool*>(arguments.inputs[static_cast<std::size_t>(gate)]);
    return GatedPart<decltype(part_of(arguments))>{part_of(arguments), open};
  });
}

}  // namespace sectionflow::gpu
