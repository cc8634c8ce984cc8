#include "op_case/kernel_runner.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <set>

#include "base/allocation_scope.h"
#include "base/bytes.h"
#include "device/device_queues.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "kernels/kernel_registry.h"
#include "op_case/node_call.h"
#include "op_case/node_parts.h"
#include "op_case/tolerance.h"

namespace sectionflow::op_cases {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr std::uint8_t kGuard = 0xA5;

/// Bytes at a chosen alignment, between two guards. On an asynchronous device there is a second copy of all of it, for
/// the kernel: upload() and download() carry it.
class GuardedBuffer {
 public:
  GuardedBuffer(Device& device, std::size_t num_bytes, std::size_t alignment, std::size_t steps, std::uint8_t garbage)
      : device_(device),
        num_bytes_(num_bytes),
        bytes_(num_bytes + 2 * kGuardBytes + (steps + 1) * alignment + kBufferAlignment, kGuard) {
    if (device.queues() != nullptr) memory_ = device.allocate(bytes_.size());
    const auto start =
        reinterpret_cast<std::uintptr_t>(memory_ ? static_cast<void*>(memory_->data()) : bytes_.data()) + kGuardBytes;
    offset_ = round_up(start, kBufferAlignment) + steps * alignment - (start - kGuardBytes);
    if (num_bytes > 0) std::memset(data(), garbage, num_bytes);
  }
  std::uint8_t* data() { return bytes_.data() + offset_; }
  /// Where the kernel finds it.
  void* place() { return memory_ ? static_cast<void*>(memory_->data() + offset_) : data(); }
  void upload() {
    if (memory_) device_.copy_from_host(memory_->data(), bytes_.data(), bytes_.size());
  }
  void download() {
    if (memory_) device_.copy_to_host(bytes_.data(), memory_->data(), bytes_.size());
  }
  void fill_from(const HostTensor& tensor) {
    if (num_bytes_ > 0) std::memcpy(data(), tensor.bytes(), num_bytes_);
  }
  bool guards_hold() const {
    const auto is_guard = [](std::uint8_t byte) { return byte == kGuard; };
    const auto body = bytes_.begin() + static_cast<std::ptrdiff_t>(offset_);
    return std::all_of(bytes_.begin(), body, is_guard) &&
           std::all_of(body + static_cast<std::ptrdiff_t>(num_bytes_), bytes_.end(), is_guard);
  }
  bool holds(const HostTensor& tensor) {
    return num_bytes_ == 0 || std::memcmp(data(), tensor.bytes(), num_bytes_) == 0;
  }

 private:
  Device& device_;
  std::size_t num_bytes_;
  std::vector<std::uint8_t> bytes_;
  std::unique_ptr<DeviceMemory> memory_;
  std::size_t offset_ = 0;
};

/// Runs that differ in what must not matter have blocks and threads in other orders on an emulated GPU, which must not
/// matter either.
std::uint64_t order_of(const RunOptions& options) {
  std::uint64_t order = options.garbage;
  for (std::uint64_t part : {static_cast<std::uint64_t>(options.threads), static_cast<std::uint64_t>(options.in_place),
                             std::uint64_t{options.replay}, std::uint64_t{options.address_seed}}) {
    order = order * 31 + part;
  }
  return order;
}

class Runner {
 public:
  Runner(const CaseDevice& device, const Feeds& feeds, const RunOptions& options)
      : feeds_(feeds),
        options_(options),
        device_(device.make(options.threads, order_of(options))),
        scope_(device_->enter()),
        addresses_(options.address_seed) {
    for (const auto& [value, tensor] : feeds) {
      SF_CHECK(tensor.dtype() == value.dtype() && matches(tensor.shape(), value.shape()), ArgumentError, "feed of ",
               tensor.type().text(), " for '", value.name(), "', which is ", value.type().text());
    }
  }

  void execute(Node& node);
  const HostTensor& tensor_of(Value value) const {
    if (const auto fed = feeds_.find(value); fed != feeds_.end()) return fed->second;
    const auto computed = computed_.find(value);
    SF_CHECK(computed != computed_.end(), ArgumentError, "'", value.name(), "' is not fed");
    return computed->second;
  }
  Feeds& changed() { return changed_; }

 private:
  using Tensors = std::vector<HostTensor>;
  Tensors launch(const NodeCall& call, const Tensors* kept);
  struct Operands {
    std::vector<const std::uint8_t*> inputs;
    std::vector<std::uint8_t*> outputs;
  };
  Operands operands(const NodeCall& call, const Tensors* kept);
  Tensors launch_parts(const NodeCall& call, const NodeParts& parts, std::int64_t count, const Tensors* kept);
  void check_parts(const NodeCall& call, const Tensors& whole, const Tensors* kept);
  void launch_kernel(Kernel& kernel, KernelArguments arguments);
  std::vector<InPlace> chosen_pairs(const NodeCall& call, const Kernel& kernel) const;
  /// The device of a case, or the CPU for an op that has no kernels there.
  Device& device_of(const OpDef& op) { return kernel_registry(device_->kind()).has(op.name) ? *device_ : *cpu_; }
  GuardedBuffer& new_buffer(Device& device, std::size_t num_bytes, bool is_variable = false) {
    const std::size_t steps = options_.address_seed == 0 ? 0 : addresses_() % 8;
    buffers_.push_back(std::make_unique<GuardedBuffer>(device, num_bytes, is_variable ? 64 : kBufferAlignment, steps,
                                                       options_.garbage));
    return *buffers_.back();
  }
  /// Where the input's newest content is: an earlier update of the variable counts for the updates after it.
  const HostTensor& input_content(const NodeCall& call, std::size_t index) const {
    const Value value = call.node.inputs()[index];
    const auto updated = changed_.find(value);
    const bool reads_new = !call.node.op().updated_inputs.empty() && updated != changed_.end();
    return reads_new ? updated->second : tensor_of(value);
  }

  const Feeds& feeds_;
  RunOptions options_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Device> cpu_ = make_device(cpu(), 1);
  std::unique_ptr<void, void (*)(void*)> scope_;
  std::mt19937 addresses_;
  std::map<Value, HostTensor> computed_;
  Feeds changed_;
  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
};

std::vector<InPlace> Runner::chosen_pairs(const NodeCall& call, const Kernel& kernel) const {
  std::vector<InPlace> offered = kernel.in_place();
  for (const InPlace& pair : offered) {
    const bool exists = pair.input >= 0 && pair.input < static_cast<int>(call.inputs.size()) && pair.output >= 0 &&
                        pair.output < static_cast<int>(call.outputs.size());
    SF_CHECK(exists && call.inputs[pair.input].bytes() == call.outputs[pair.output].bytes() &&
                 call.uses[pair.input] == InputUse::data,
             InternalError, call.node.label(), ": impossible in-place pair ", pair.input, " -> ", pair.output);
  }
  if (options_.in_place == InPlaceUse::none) return {};
  if (options_.in_place == InPlaceUse::last_pairs) std::reverse(offered.begin(), offered.end());
  std::vector<InPlace> chosen;
  for (const InPlace& pair : offered) {
    const bool free = std::none_of(chosen.begin(), chosen.end(), [&](const InPlace& other) {
      return other.output == pair.output || call.node.inputs()[other.input] == call.node.inputs()[pair.input];
    });
    if (free) chosen.push_back(pair);
  }
  return chosen;
}

/// Executes a kernel on fresh buffers. `kept`: the first execution's outputs, for a replay.
Runner::Tensors Runner::launch(const NodeCall& call, const Tensors* kept) {
  const OpDef& op = call.node.op();
  const std::vector<Value>& input_values = call.node.inputs();
  Device& device = device_of(op);
  const auto kernel = make_kernel(call, device, {.replay = kept != nullptr, .widens_bf16 = options_.widens_bf16});
  buffers_.clear();

  std::map<Value, GuardedBuffer*> by_value;  // one buffer a value: an op that reads a value twice gets one address
  std::vector<const void*> inputs(call.inputs.size(), nullptr);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (call.uses[i] != InputUse::data) continue;
    GuardedBuffer*& buffer = by_value[input_values[i]];
    if (buffer == nullptr) {
      buffer = &new_buffer(device, call.inputs[i].bytes(), is_variable(input_values[i]));
      buffer->fill_from(input_content(call, i));
    }
    inputs[i] = buffer->place();
  }
  std::vector<GuardedBuffer*> output_buffers(call.outputs.size(), nullptr);
  std::set<Value> overwritten;
  for (const InPlace& pair : chosen_pairs(call, *kernel)) {
    output_buffers[pair.output] = by_value[input_values[pair.input]];
    overwritten.insert(input_values[pair.input]);
  }
  std::vector<void*> outputs, updated;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (output_buffers[i] == nullptr) output_buffers[i] = &new_buffer(device, call.outputs[i].bytes());
    const bool is_kept = std::count(op.kept_outputs.begin(), op.kept_outputs.end(), static_cast<int>(i)) > 0;
    if (kept != nullptr && is_kept) output_buffers[i]->fill_from((*kept)[i]);
    outputs.push_back(output_buffers[i]->place());
  }
  for (int index : op.updated_inputs) {
    updated.push_back(by_value.at(input_values[index])->place());
    overwritten.insert(input_values[index]);
  }
  RandomAddress random = options_.random;
  random.node = call.node.random_ordinal();
  GuardedBuffer& workspace = new_buffer(device, kernel->workspace_bytes());
  launch_kernel(*kernel, {inputs, outputs, updated, workspace.place(), random});

  for (const auto& buffer : buffers_) {
    SF_CHECK(buffer->guards_hold(), InternalError, call.node.label(), " (", kernel->implementation(),
             ") wrote outside of its buffers");
  }
  for (const auto& [value, buffer] : by_value) {
    SF_CHECK(overwritten.contains(value) || buffer->holds(tensor_of(value)), InternalError, call.node.label(), " (",
             kernel->implementation(), ") changed its input '", value.name(), "'");
  }
  Tensors results;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    results.emplace_back(call.outputs[i]);
    if (results[i].num_bytes() > 0) std::memcpy(results[i].bytes(), output_buffers[i]->data(), results[i].num_bytes());
  }
  for (std::size_t i = 0; i < op.updated_inputs.size(); ++i) {
    const Value variable = input_values[op.updated_inputs[i]];
    HostTensor content(tensor_of(variable).type());
    if (content.num_bytes() > 0) std::memcpy(content.bytes(), by_value.at(variable)->data(), content.num_bytes());
    changed_.insert_or_assign(variable, std::move(content));
  }
  return results;
}

/// Buffers of the inputs that are read and of the outputs, each of its own; null for other inputs.
Runner::Operands Runner::operands(const NodeCall& call, const Tensors* kept) {
  Device& device = device_of(call.node.op());
  const std::vector<int>& kept_outputs = call.node.op().kept_outputs;
  Operands operands;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    operands.inputs.push_back(nullptr);
    if (call.uses[i] != InputUse::data) continue;
    GuardedBuffer& buffer = new_buffer(device, call.inputs[i].bytes());
    buffer.fill_from(input_content(call, i));
    operands.inputs[i] = buffer.data();
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    GuardedBuffer& buffer = new_buffer(device, call.outputs[i].bytes());
    const bool is_kept = std::count(kept_outputs.begin(), kept_outputs.end(), static_cast<int>(i)) > 0;
    if (kept != nullptr && is_kept) buffer.fill_from((*kept)[i]);
    operands.outputs.push_back(buffer.data());
  }
  return operands;
}

/// What launch does, in `count` parts, one after the other: the workspace of one is as the one before has left it.
Runner::Tensors Runner::launch_parts(const NodeCall& call, const NodeParts& parts, std::int64_t count,
                                     const Tensors* kept) {
  const auto& [of_inputs, of_outputs, block] = parts.uses;
  const NodeCall part = part_call(call, parts, count);
  Device& device = device_of(call.node.op());
  const auto kernel = [&](bool adds) {
    return make_kernel(part, device, {.replay = kept != nullptr, .part = NodePart{parts.rows, adds}});
  };
  const bool has_sum = std::count(of_outputs.begin(), of_outputs.end(), PartUse::sum) > 0;
  const auto first = kernel(false), further = kernel(has_sum);
  buffers_.clear();
  const Operands whole = operands(call, kept);
  GuardedBuffer& workspace = new_buffer(device, std::max(first->workspace_bytes(), further->workspace_bytes()));
  for (std::int64_t index = 0; index < count; ++index) {
    std::vector<const void*> inputs(call.inputs.size(), nullptr);
    std::vector<void*> outputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (whole.inputs[i] == nullptr) continue;
      inputs[i] = whole.inputs[i] + part_offset(call.inputs[i], of_inputs[i], index, count);
    }
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      outputs.push_back(whole.outputs[i] + part_offset(call.outputs[i], of_outputs[i], index, count));
    }
    launch_kernel(*(index == 0 ? first : further), {inputs, outputs, {}, workspace.place(), {}});
  }
  for (const auto& buffer : buffers_) {
    SF_CHECK(buffer->guards_hold(), InternalError, call.node.label(), " (", first->implementation(), ") in ", count,
             " parts wrote outside of its buffers");
  }
  Tensors results;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    results.emplace_back(call.outputs[i]);
    if (results[i].num_bytes() > 0) std::memcpy(results[i].bytes(), whole.outputs[i], results[i].num_bytes());
  }
  return results;
}

/// Throws: InternalError where the node may run in parts and gives other bits than `whole` then.
void Runner::check_parts(const NodeCall& call, const Tensors& whole, const Tensors* kept) {
  if (device_of(call.node.op()).kind() != DeviceKind::cpu) return;
  const std::optional<NodeParts> parts = node_parts(call);
  if (!parts) return;
  for (std::int64_t count : part_counts(*parts)) {
    const Tensors found = launch_parts(call, *parts, count, kept);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const std::string difference = bit_difference_of(whole[i], found[i]);
      SF_CHECK(difference.empty(), InternalError, call.node.label(), ", ", kept == nullptr ? "" : "replayed, ",
               "output ", i, " at once against ", count, " parts: ", difference);
    }
  }
}

/// One launch, to its end.
void Runner::launch_kernel(Kernel& kernel, KernelArguments arguments) {
  DeviceQueues* queues = device_->queues();
  if (queues != nullptr) {
    for (const auto& buffer : buffers_) buffer->upload();
    queues->set_random_state({arguments.random.seed, arguments.random.step});
    arguments.queue = queues->native(Queue::compute);
    arguments.random_state = queues->random_state();
  }
  {
    const StepScope step;
    kernel.launch(arguments);
  }
  if (queues == nullptr) return;
  queues->synchronize();
  for (const auto& buffer : buffers_) buffer->download();
}

void Runner::execute(Node& node) {
  if (!node.op().has_kernel) return;
  std::vector<TensorType> inputs;
  for (const Value& input : node.inputs()) inputs.push_back(tensor_of(input).type());
  const NodeCall call = make_call(node, std::move(inputs), feeds_);
  if (node.op().has_effect && !node.op().has_effect(call.booleans)) return;
  Tensors results = launch(call, nullptr);
  if (options_.in_parts) check_parts(call, results, nullptr);
  if (options_.replay && node.op().recompute != Recompute::once) {
    Tensors again = launch(call, &results);
    if (options_.in_parts) check_parts(call, again, &results);
    for (int kept : node.op().kept_outputs) {
      SF_CHECK(bitwise_equal(again[kept], results[kept]), InternalError, node.label(), ": the replay changed output ",
               kept, ", which is kept");
    }
    results = std::move(again);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    computed_.insert_or_assign(node.output(static_cast<int>(i)), std::move(results[i]));
  }
}

/// The nodes that must be executed, updates last since every reader sees a variable's old content.
std::vector<Node*> execution_order(const std::vector<Value>& fetches, const std::vector<Operation>& operations) {
  std::map<NodeId, Node*> needed;
  std::vector<Node*> open;
  for (const Value& fetch : fetches) open.push_back(&fetch.node());
  for (const Operation& operation : operations) open.push_back(&operation.node());
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (!needed.emplace(node->id(), node).second) continue;
    for (const Value& input : node->inputs()) open.push_back(&input.node());
    for (Node* before : node->control_inputs()) open.push_back(before);
  }
  std::vector<Node*> order;
  for (const auto& [id, node] : needed) order.push_back(node);
  std::stable_partition(order.begin(), order.end(), [](Node* node) { return node->op().updated_inputs.empty(); });
  return order;
}

}  // namespace

RunResult run_kernels(const CaseDevice& device, const std::vector<Value>& fetches,
                      const std::vector<Operation>& operations, const Feeds& feeds, const RunOptions& options) {
  Runner runner(device, feeds, options);
  for (Node* node : execution_order(fetches, operations)) runner.execute(*node);
  RunResult result;
  for (const Value& fetch : fetches) result.fetched.push_back(runner.tensor_of(fetch).clone());
  result.variables = std::move(runner.changed());
  return result;
}

}  // namespace sectionflow::op_cases
