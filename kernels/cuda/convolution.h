#pragma once

#include <memory>
#include <string>

#include "kernels/kernel_registry.h"

namespace sectionflow {

// Convolutions of every rank, group, stride, dilation and format, as matrix products whose factors are gathered from
// the images: no copies of them are made. Groups of few channels, which would leave tiles empty, are summed directly.

// Inputs: x, w.
std::unique_ptr<Kernel> make_cuda_convolution(const KernelRequest& request);
// Inputs: dy, w; a transposed convolution calls them x and w.
std::unique_ptr<Kernel> make_cuda_convolution_backward_input(const KernelRequest& request);
// Inputs: dy, x. The sum over batch and positions is cut by shape alone; the parts are added in order, in double.
std::unique_ptr<Kernel> make_cuda_convolution_backward_filter(const KernelRequest& request);

/// All of them, for the op `name` and the two of its gradients.
void add_cuda_convolution_kernels(KernelRegistry& registry, const std::string& name);

}  // namespace sectionflow
