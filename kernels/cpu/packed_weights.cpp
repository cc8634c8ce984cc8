#include "kernels/packed_weights.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "kernels/cpu/ordered_weights.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

/// What has to be alike for packed weights to be read: the machine's arithmetic, and where each element lies.
std::string order_text(const Device& device, const OrderedWeights& weights) {
  return device.arithmetic() + ": " + layout_text(weights.wanted());
}

/// The kernel of the operation itself, for inputs of these types.
std::unique_ptr<Kernel> inner_kernel(const KernelRequest& request, const std::vector<TensorType>& inputs) {
  const auto& options = request.node.options<PackedWeightsOptions>();
  // Kernels are made for nodes, and live longer.
  Graph graph;
  std::vector<Value> values;
  for (const TensorType& type : inputs) values.push_back(placeholder(graph, "input", type.shape, type.dtype));
  const Node& node = graph.add_node(options.op, values, options.options, "/" + request.node.name());
  return kernel_registry(DeviceKind::cpu)
      .make({.node = node,
             .inputs = inputs,
             .outputs = node.output_types(),
             .host_booleans = std::vector<std::optional<bool>>(inputs.size()),
             .device = request.device});
}

/// What of a kernel reads weights that are packed as the options say; nullptr where nothing does.
ReadsOrderedWeights* reader_of(Kernel& kernel, const KernelRequest& request) {
  const auto& options = request.node.options<PackedWeightsOptions>();
  const auto input = static_cast<std::size_t>(options.input);
  auto* reader = dynamic_cast<ReadsOrderedWeights*>(&kernel);
  if (reader == nullptr || reader->weights_input() != input) return nullptr;
  const bool is_whole = reader->weights().wanted().get_size() == request.inputs[input].bytes();
  return is_whole && order_text(request.device, reader->weights()) == options.order ? reader : nullptr;
}

/// For types whose kernel reads its weights in another order: they are brought back into that of a tensor first.
class UnpackingKernel final : public Kernel {
 public:
  UnpackingKernel(std::unique_ptr<Kernel> inner, OneDnnCall unpack, std::size_t input, std::size_t plain_bytes)
      : inner_(std::move(inner)), unpack_(std::move(unpack)), input_(input) {
    plain_at_ = workspace_.add(plain_bytes);
    scratch_at_ = workspace_.add(std::max(inner_->workspace_bytes(), unpack_.scratchpad_bytes()));
  }

  std::string implementation() const override { return inner_->implementation() + ", weights unpacked"; }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }
  std::size_t library_bytes() const override { return inner_->library_bytes() + unpack_.library_bytes(); }
  std::vector<InPlace> in_place() const override { return inner_->in_place(); }

  void launch(const KernelArguments& arguments) override {
    void* plain = workspace_part(arguments.workspace, plain_at_);
    void* scratch = workspace_part(arguments.workspace, scratch_at_);
    unpack_.launch({arguments.inputs[input_], plain}, scratch);
    std::array<const void*, kMostInputs> inputs{};
    std::copy(arguments.inputs.begin(), arguments.inputs.end(), inputs.begin());
    inputs[input_] = plain;
    KernelArguments inner = arguments;
    inner.inputs = {inputs.data(), arguments.inputs.size()};
    inner.workspace = scratch;
    inner_->launch(inner);
  }

  static constexpr std::size_t kMostInputs = 8;

 private:
  std::unique_ptr<Kernel> inner_;
  OneDnnCall unpack_;
  std::size_t input_;
  std::size_t plain_at_ = 0, scratch_at_ = 0;
  WorkspaceLayout workspace_;
};

std::unique_ptr<Kernel> make_with_packed_weights(const KernelRequest& request) {
  const auto& options = request.node.options<PackedWeightsOptions>();
  const auto input = static_cast<std::size_t>(options.input);
  std::vector<TensorType> inputs = request.inputs;
  inputs[input] = options.types[input];
  auto kernel = inner_kernel(request, inputs);
  if (ReadsOrderedWeights* reader = reader_of(*kernel, request)) {
    reader->take_packed();
    return kernel;
  }
  const auto packed_for = inner_kernel(request, options.types);
  const ReadsOrderedWeights* reader = reader_of(*packed_for, request);
  SF_CHECK(reader != nullptr && inputs.size() <= UnpackingKernel::kMostInputs, ArgumentError, request.node.label(),
           ": its weights were packed as '", options.order, "'; on ", request.device.name(), " with ",
           request.device.arithmetic(), " no kernel of ", options.op, " reads them so",
           hint("pack the weights of the graph that was saved on the machine that runs it, with as many threads"));
  const OrderedWeights& weights = reader->weights();
  OneDnnCall unpack = make_reorder(onednn_of(request), weights.wanted(), weights.plain());
  return std::make_unique<UnpackingKernel>(std::move(kernel), std::move(unpack), input, inputs[input].bytes());
}

}  // namespace

std::optional<PackedWeights> pack_weights(const KernelRequest& request,
                                          const std::function<const HostTensor*(std::size_t input)>& content) {
  if (!may_have_packed_weights(request.node.op())) return std::nullopt;
  const auto kernel = kernel_registry(DeviceKind::cpu).make(request);
  const auto* reader = dynamic_cast<const ReadsOrderedWeights*>(kernel.get());
  if (reader == nullptr || !reader->weights().are_copied()) return std::nullopt;
  const std::size_t input = reader->weights_input();
  const HostTensor* plain = content(input);
  if (plain == nullptr) return std::nullopt;
  const OrderedWeights& weights = reader->weights();
  const std::size_t bytes = weights.wanted().get_size(), element = dtype_bytes(plain->dtype());
  if (bytes % element != 0) return std::nullopt;
  PackedWeights packed{.options = {.op = request.node.op().name,
                                   .options = request.node.any_options(),
                                   .input = static_cast<std::int64_t>(input),
                                   .types = request.inputs,
                                   .order = order_text(request.device, weights)},
                       .content = HostTensor(plain->dtype(), {static_cast<std::int64_t>(bytes / element)})};
  HostTensor scratchpad(Dtype::u8, {static_cast<std::int64_t>(weights.scratchpad_bytes())});
  OneDnnCall copy = make_reorder(onednn_of(request), weights.plain(), weights.wanted());
  copy.launch({plain->bytes(), packed.content.bytes()}, scratchpad.bytes());
  return packed;
}

void add_packed_weights_cpu_kernels(KernelRegistry& registry) {
  registry.add("with_packed_weights", onednn_factory<make_with_packed_weights>, Bf16::native);
}

}  // namespace sectionflow
