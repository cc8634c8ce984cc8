#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "kernels/cuda/launch.h"
#include "kernels/kernel.h"

namespace sectionflow::gpu {

// Kernels of one type that a single launch serves. Each gives a **part**, a struct of plain values with
//
// - `kThreads`, `kSharedBytes`: what a block of it has;
// - `num_blocks()`: how many blocks it is cut into;
// - `run(thread, block)`: what a thread does in its block number `block`.

/// body(i) for each i below `count`, as a part.
template <class Body>
struct EachPart {
  static constexpr int kThreads = kMostThreads;
  static constexpr std::size_t kSharedBytes = 0;
  Body body;
  std::int64_t count;

  std::int64_t num_blocks() const { return blocks_for(count, kThreads); }
  template <class Thread>
  SF_HOST_DEVICE void run(Thread& thread, std::int64_t block) const {
    const std::int64_t i = block * kThreads + thread.index();
    if (i < count) body(i);
  }
};

/// A table of parts, whose blocks lie one behind the other. By value like any body, so that recordings may hold it.
template <class Part, int kCapacity>
struct JointBody {
  std::int64_t ends[kCapacity];  // the number of blocks up to the end of each part
  Part parts[kCapacity];
  int count;

  void add(const Part& part) {
    ends[count] = num_blocks() + part.num_blocks();
    parts[count++] = part;
  }
  std::int64_t num_blocks() const { return count == 0 ? 0 : ends[count - 1]; }

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    if constexpr (kCapacity == 1) {
      parts[0].run(thread, thread.block());
    } else {
      const int part = part_at(thread.block());
      parts[part].run(thread, thread.block() - (part == 0 ? 0 : ends[part - 1]));
    }
  }
  /// The first part that ends behind the block.
  SF_HOST_DEVICE int part_at(std::int64_t block) const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (block < ends[middle]) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
};

/// How many parts the bytes of a launch hold.
template <class Part>
inline constexpr int kMostJoint = static_cast<int>((kMostBodyBytes - 16) / (sizeof(Part) + sizeof(std::int64_t)));

/// A kernel that is launched alone or together with others of its type: `part_of(arguments)` gives its part.
template <class PartOf>
class JointKernel final : public Kernel {
 public:
  explicit JointKernel(PartOf part_of) : part_of_(std::move(part_of)) {}

  void launch(const KernelArguments& arguments) override {
    Kernel* const alone = this;
    launch_tables<1>({&alone, 1}, {&arguments, 1});
  }
  const void* joint_kind() const override { return &typeid(JointKernel); }
  void launch_joint(std::span<Kernel* const> kernels, std::span<const KernelArguments> arguments) override {
    launch_tables<kMostJoint<Part>>(kernels, arguments);
  }

 private:
  using Part = std::invoke_result_t<const PartOf&, const KernelArguments&>;

  /// As many launches as tables of kCapacity parts are filled.
  template <int kCapacity>
  static void launch_tables(std::span<Kernel* const> kernels, std::span<const KernelArguments> arguments) {
    JointBody<Part, kCapacity> table{};
    const auto launch_table = [&] {
      launch_blocks(arguments[0].queue,
                    {.blocks = table.num_blocks(), .threads = Part::kThreads, .shared_bytes = Part::kSharedBytes},
                    table);
      table.count = 0;
    };
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const Part part = static_cast<const JointKernel*>(kernels[i])->part_of_(arguments[i]);
      if (part.num_blocks() == 0) continue;
      if (table.count == kCapacity) launch_table();
      table.add(part);
    }
    if (table.count > 0) launch_table();
  }

  PartOf part_of_;
};

template <class PartOf>
std::unique_ptr<Kernel> joint_kernel(PartOf part_of) {
  return std::make_unique<JointKernel<PartOf>>(std::move(part_of));
}

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
