#include "op_case/node_call.h"

#include <algorithm>
#include <utility>

#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "kernels/kernel_registry.h"

namespace sectionflow::op_cases {
namespace {

/// Known content of boolean scalars among the inputs, as a session would know it from feeds and constants.
std::vector<std::optional<bool>> known_booleans(const Node& node, const Feeds& feeds) {
  std::vector<std::optional<bool>> known;
  for (const Value& input : node.inputs()) {
    const auto fed = feeds.find(input);
    const HostTensor* content = fed != feeds.end() ? &fed->second : constant_content(input);
    const bool is_boolean = content != nullptr && content->type() == TensorType{Dtype::boolean, {}};
    known.push_back(is_boolean ? std::optional<bool>(content->item<bool>()) : std::nullopt);
  }
  return known;
}

bool has_bf16(const NodeCall& call) {
  const auto is_bf16 = [](const TensorType& type) { return type.dtype == Dtype::bf16; };
  return std::any_of(call.inputs.begin(), call.inputs.end(), is_bf16) ||
         std::any_of(call.outputs.begin(), call.outputs.end(), is_bf16);
}

/// Whether the kernel, of bf16, is a library's: what multiplies bf16 adds up in an order of its own.
bool multiplies_by_itself(const Kernel& kernel) {
  return kernel.implementation().starts_with("onednn");
}

}  // namespace

NodeCall make_call(Node& node, std::vector<TensorType> inputs, const Feeds& feeds) {
  NodeCall call{node, std::move(inputs), {}, {}, known_booleans(node, feeds)};
  call.outputs = node.op().infer({node.label(), call.inputs, node.any_options()});
  call.uses = node.op().input_uses(call.inputs.size(), call.booleans);
  for (std::size_t i = 0; i < call.uses.size(); ++i) {
    if (call.uses[i] != InputUse::host_boolean) call.booleans[i].reset();
  }
  return call;
}

std::unique_ptr<Kernel> make_kernel(const NodeCall& call, Device& device, const KernelChoice& choice) {
  const KernelRequest request{call.node, call.inputs, call.outputs, call.booleans, choice.replay, choice.part, device};
  const KernelRegistry& registry = kernel_registry(device.kind());
  // What has no input is made of its own options.
  auto kernel = registry.make(request);
  if (choice.widens_bf16 && has_bf16(call) && !request.inputs.empty() && !multiplies_by_itself(*kernel)) {
    if (auto widened = registry.make_widened(request)) return widened;
  }
  return kernel;
}

NodeCall make_call(Node& node) {
  std::vector<TensorType> types;
  for (const Value& input : node.inputs()) types.push_back(input.type());
  return make_call(node, std::move(types), {});
}

}  // namespace sectionflow::op_cases
