#pragma once

#include <memory>

#include "kernels/kernel.h"

namespace sectionflow {

// The kernels of pools of every rank. Loops of our own: their bits do not depend on the thread count.
std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_max_pool_grad(const KernelRequest& request);
std::unique_ptr<Kernel> make_average_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_average_pool_grad(const KernelRequest& request);

}  // namespace sectionflow
