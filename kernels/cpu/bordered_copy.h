#pragma once

#include <memory>

#include "kernels/bordered_copy.h"
#include "kernels/kernel.h"

namespace sectionflow {

/// The kernel that computes output 0 from input 0 so; in place where x is all of y.
std::unique_ptr<Kernel> bordered_copy_kernel(const BorderedCopy& copy);

}  // namespace sectionflow
