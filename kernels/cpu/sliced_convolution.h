#pragma once

#include <memory>

#include "kernels/kernel_registry.h"

namespace sectionflow {

/// What becomes of the images of a convolution of bf16 tensors, or of one of its gradients.
enum class SlicedUse {
  each,  ///< input 0 and the output are images; input 1 is the weights
  sum    ///< inputs 0 and 1 are images; the output is a sum over them
};

/// The kernel for a request of bf16 tensors alone, of which some images at a time are widened into workspace, where
/// `make`'s kernel for f32 computes: workspace does not grow with the batch, and what was widened is still in cache. A
/// sum is carried in f32 over the slices, in their order, and rounded once. How many images are a slice is decided by
/// the shapes. nullptr where `make` has no kernel, and for what is empty.
std::unique_ptr<Kernel> sliced_convolution(const KernelRequest& request, KernelFactory make, SlicedUse use);

}  // namespace sectionflow
