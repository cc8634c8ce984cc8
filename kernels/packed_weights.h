#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "base/export.h"
#include "base/host_tensor.h"
#include "graph/ops/packed_weights.h"
#include "kernels/kernel.h"

namespace SF_API sectionflow {

/// Weights in the order in which a kernel reads them. What they are packed for is one kind of machine, with one version
/// of oneDNN and one instruction set: others refuse it.
struct PackedWeights {
  PackedWeightsOptions options{};  ///< of a node "with_packed_weights" that takes them
  HostTensor content{};            ///< [n]
};

/// The weights of a node of the CPU as its kernel reads them, packed by the device's team, which the calling thread has
/// entered. `content(i)`: input i as it lies; nullptr where it may not be packed. Nothing where the kernel reads its
/// inputs as they lie, or copies none that may be packed. Throws: what making the kernel throws.
std::optional<PackedWeights> pack_weights(const KernelRequest& request,
                                          const std::function<const HostTensor*(std::size_t input)>& content);

}  // namespace sectionflow
