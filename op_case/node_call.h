#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/host_tensor.h"
#include "graph/graph.h"
#include "graph/op_def.h"
#include "kernels/kernel.h"

namespace sectionflow::op_cases {

/// What placeholders and variables hold.
using Feeds = std::map<Value, HostTensor>;

/// One node with its concrete types.
struct NodeCall {
  Node& node;
  std::vector<TensorType> inputs, outputs;
  std::vector<InputUse> uses;
  std::vector<std::optional<bool>> booleans;
};

/// The call of a node with inputs of these types; boolean scalars among the feeds choose kernels.
NodeCall make_call(Node& node, std::vector<TensorType> inputs, const Feeds& feeds);
/// The call of a node with inputs of the types that it was made with.
NodeCall make_call(Node& node);

/// How the kernel of a call is made.
struct KernelChoice {
  bool replay = false;
  /// The one of f32 around which bf16 is widened, also where there is another; but for products that oneDNN takes as
  /// bf16.
  bool widens_bf16 = false;
  std::optional<NodePart> part{};  ///< the call is that of a part
};
std::unique_ptr<Kernel> make_kernel(const NodeCall& call, Device& device, const KernelChoice& choice = {});

}  // namespace sectionflow::op_cases
