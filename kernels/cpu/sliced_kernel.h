#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/kernel.h"

namespace sectionflow {

/// Which tensors of a kernel of two inputs and an output hold items, as many and in the same order: images of a batch,
/// matrices.
enum class SlicedUse {
  each,  ///< input 0 and the output; input 1 is the same for all, as weights are
  sum,   ///< inputs 0 and 1; the output is a sum over the items
  pairs  ///< all three
};

/// Makes the kernel of f32 for so many items, or nullptr where there is none.
using MakeOfItems = std::function<std::unique_ptr<Kernel>(std::int64_t num_items)>;

/// The kernel for a request of bf16 tensors alone, of which some items at a time are widened into workspace, where
/// kernels of f32 compute: workspace does not grow with the number of items, and what was widened is still in cache. A
/// sum is carried in f32 over the slices, in their order, and rounded once. How many items are a slice is decided by
/// the shapes, of pairs by the number of threads too: all where they are small together, and then the bits are those of
/// f32 between copies. nullptr where `make` has no kernel, and for what is empty.
std::unique_ptr<Kernel> sliced_kernel(const KernelRequest& request, SlicedUse use, std::int64_t num_items,
                                      const MakeOfItems& make);

}  // namespace sectionflow
