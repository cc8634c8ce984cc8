#pragma once

#include <cstdint>
#include <functional>

#include "kernels/cuda/host_thread.h"
#include "kernels/cuda/launch.h"

namespace sectionflow::testing_support {

/// Executes the blocks of a kernel on the host, one after the other in an order drawn from `seed`, and the threads of a
/// block in turns drawn from it too, each on a fiber of its own. What HostThread promises to catch is caught.
void emulate_blocks(const gpu::LaunchShape& shape, const std::function<void(gpu::HostThread&)>& body,
                    std::uint64_t seed);

}  // namespace sectionflow::testing_support
