#pragma once

#include <memory>

#include "kernels/kernel.h"

namespace sectionflow {

// The kernels of pools of every rank: a thread an element of the result. A gradient looks up the windows that its
// element lies in.
std::unique_ptr<Kernel> make_cuda_max_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_cuda_max_pool_grad(const KernelRequest& request);
std::unique_ptr<Kernel> make_cuda_average_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_cuda_average_pool_grad(const KernelRequest& request);

}  // namespace sectionflow
