#include "tests/support/queued_kernels.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <typeinfo>
#include <vector>

#include "device/device.h"
#include "device/mapped_memory.h"
#include "graph/op_registry.h"
#include "kernels/cuda/host_thread.h"
#include "kernels/kernel.h"

namespace sectionflow::testing_support {
namespace {

/// A kernel of the CPU as work of a queue.
class QueuedKernel final : public Kernel {
 public:
  explicit QueuedKernel(const KernelRequest& request) {
    // As where it is launched: oneDNN cuts its work by the team that is there when it makes it.
    const auto entered = cpu_->enter();
    KernelRequest on_cpu{request.node, request.inputs, request.outputs, request.host_booleans, request.replay,
                         request.part, *cpu_};
    kernel_ = kernel_registry(DeviceKind::cpu).make(on_cpu);
    is_update_ = !request.node.op().updated_inputs.empty() && kernel_->workspace_bytes() == 0;
    name_ = request.node.op().name;
    for (const TensorType& input : request.inputs) input_bytes_.push_back(input.bytes());
    output_bytes_ = request.outputs.empty() ? 0 : request.outputs[0].bytes();
  }
  std::string implementation() const override { return kernel_->implementation(); }
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  std::vector<InPlace> in_place() const override { return kernel_->in_place(); }
  void launch(const KernelArguments& arguments) override {
    static_cast<gpu::HostQueue*>(arguments.queue)
        ->enqueue_host([this, inputs = copy_of(arguments.inputs), outputs = copy_of(arguments.outputs),
                        updated = copy_of(arguments.updated), workspace = arguments.workspace,
                        node = arguments.random.node, state = arguments.random_state] {
          work({.inputs = inputs,
                .outputs = outputs,
                .updated = updated,
                .workspace = workspace,
                .random = {state->seed, node, static_cast<std::uint32_t>(state->cycle)}});
        });
  }
  /// All updates go together, the last first: which come together may be done in any order.
  const void* joint_kind() const override { return is_update_ ? &typeid(QueuedKernel) : nullptr; }
  void launch_joint(std::span<Kernel* const> kernels, std::span<const KernelArguments> arguments) override {
    for (std::size_t i = kernels.size(); i-- > 0;) kernels[i]->launch(arguments[i]);
  }
  /// Sums with what is element-wise and reads one element of them for each of its own.
  bool chains_into(const Kernel& next, int operand) const override {
    static const std::set<std::string> sums = {"add", "add_n", "bias_add"};
    static const std::set<std::string> followers = {"add", "bias_add", "gelu", "relu", "relu_grad", "tanh"};
    const auto* second = dynamic_cast<const QueuedKernel*>(&next);
    return second != nullptr && sums.contains(name_) && followers.contains(second->name_) &&
           input_bytes_[0] == output_bytes_ && second->output_bytes_ == output_bytes_ &&
           second->input_bytes_[static_cast<std::size_t>(operand)] == output_bytes_;
  }
  /// What is in between comes to its place only where it is to be stored there.
  void launch_chain(const KernelArguments& arguments, const ChainedKernel& next) override {
    auto* second = static_cast<QueuedKernel*>(&next.kernel);
    static_cast<gpu::HostQueue*>(arguments.queue)
        ->enqueue_host([this, second, inputs = copy_of(arguments.inputs), outputs = copy_of(arguments.outputs),
                        others = copy_of(next.arguments.inputs), results = copy_of(next.arguments.outputs),
                        operand = static_cast<std::size_t>(next.operand), stores = next.stores] {
          const auto between = map_memory(std::max<std::size_t>(output_bytes_, 1), {.tier = "cuda", .option = "none"});
          void* const place = between->data();
          work({.inputs = inputs, .outputs = {&place, 1}, .updated = {}, .random = {}});
          if (stores && output_bytes_ > 0) std::memcpy(outputs[0], place, output_bytes_);
          std::vector<const void*> second_inputs = others;
          second_inputs[operand] = place;
          second->work({.inputs = second_inputs, .outputs = results, .updated = {}, .random = {}});
        });
  }

 private:
  void work(const KernelArguments& arguments) {
    const auto entered = cpu_->enter();
    kernel_->launch(arguments);
  }
  static std::vector<void*> copy_of(std::span<void* const> pointers) { return {pointers.begin(), pointers.end()}; }
  static std::vector<const void*> copy_of(std::span<const void* const> pointers) {
    return {pointers.begin(), pointers.end()};
  }

  std::unique_ptr<Device> cpu_ = make_device(cpu(), 1);
  std::unique_ptr<Kernel> kernel_;
  bool is_update_ = false;
  std::string name_;
  std::vector<std::size_t> input_bytes_;
  std::size_t output_bytes_ = 0;
};

}  // namespace

const KernelRegistry& queued_cpu_kernels() {
  static const KernelRegistry kernels = [] {
    KernelRegistry all;
    for (const auto& [name, definition] : op_registry().all()) {
      if (!kernel_registry(DeviceKind::cpu).has(name)) continue;
      const KernelFactory queued = [](const KernelRequest& request) -> std::unique_ptr<Kernel> {
        return std::make_unique<QueuedKernel>(request);
      };
      all.add(name, queued, Bf16::native);
    }
    return all;
  }();
  return kernels;
}

}  // namespace sectionflow::testing_support
