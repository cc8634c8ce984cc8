#pragma once

#include <memory>
#include <string>

#include "kernels/kernel_registry.h"

namespace sectionflow {

// The kernels of convolutions of every rank: on oneDNN where it has code made for the machine (jit, brgemm), and loops
// of our own for the rest, since oneDNN's gemm takes memory that no scratchpad shows, and its reference is slow.
// Images whose channels stand behind the batch are copied to scratch with channels last, and back: the same numbers.

// Inputs: x, w.
std::unique_ptr<Kernel> make_convolution(const KernelRequest& request);
std::unique_ptr<Kernel> make_convolution_loop(const KernelRequest& request);
// Inputs: dy, w; a transposed convolution calls them x and w.
std::unique_ptr<Kernel> make_convolution_backward_input(const KernelRequest& request);
std::unique_ptr<Kernel> make_convolution_backward_input_loop(const KernelRequest& request);
// Inputs: dy, x.
std::unique_ptr<Kernel> make_convolution_backward_filter(const KernelRequest& request);
std::unique_ptr<Kernel> make_convolution_backward_filter_loop(const KernelRequest& request);

/// All of them, for the op `name` and the two of its gradients.
void add_convolution_kernels(KernelRegistry& registry, const std::string& name);

}  // namespace sectionflow
