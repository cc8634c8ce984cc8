#pragma once

#include "kernels/kernel_registry.h"

namespace sectionflow {

/// The kernels of what ranks hold in shards (graph/nodes/shards.h), of the family `update`.
void add_shard_cpu_kernels(KernelRegistry& registry);

}  // namespace sectionflow
