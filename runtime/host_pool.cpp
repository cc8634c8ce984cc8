#include "runtime/host_pool.h"

#include "device/mapped_memory.h"

namespace sectionflow {

HostPool::HostPool(std::size_t num_bytes)
    : block_(map_memory(num_bytes, {.tier = "host", .option = "host_memory", .must_be_there = true})) {}

}  // namespace sectionflow
