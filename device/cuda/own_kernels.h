#pragma once

#include <cstddef>

namespace sectionflow::gpu {

/// Adds a kernel of this shared object, by its host function, to those that load_own_kernels loads. Call it while the
/// object is being loaded. Returns true.
bool add_own_kernel(const void* kernel);

/// Has the code of all our kernels in the current GPU's memory, where the driver would put each when it is first
/// launched: so what is free afterwards is free for a budget, and no launch waits for code.
/// Throws: DeviceError where a kernel has no code for this GPU.
void load_own_kernels();
/// How many they are.
std::size_t num_own_kernels();

}  // namespace sectionflow::gpu
