#include <memory>

#include "base/error.h"
#include "device/device_queues.h"
#include "graph/ops/identities.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/print_values.h"

namespace sectionflow {
namespace {

/// The first values on the host, where the device puts them by itself, for as long as the kernel lives.
struct Printing {
  PrintedValues printed;
  std::unique_ptr<DeviceMemory> pinned;
  std::size_t num_bytes = 0;
};

void log_values(void* printing) noexcept {
  const auto* content = static_cast<const Printing*>(printing);
  content->printed.log(content->num_bytes == 0 ? nullptr : content->pinned->data());
}

std::unique_ptr<Kernel> make_print(const KernelRequest& request) {
  const TensorType& x = request.inputs[0];
  if (request.replay) return gpu::copy_kernel(x.bytes());
  const auto& options = request.node.options<PrintOptions>();
  DeviceQueues* queues = request.device.queues();
  SF_CHECK(queues != nullptr, InternalError, request.node.label(), ": a device without queues");
  const auto printing = std::make_shared<Printing>(Printing{{options.label, x, options.first}, nullptr});
  printing->num_bytes = static_cast<std::size_t>(printing->printed.num_shown()) * dtype_bytes(x.dtype);
  if (printing->num_bytes > 0) printing->pinned = queues->allocate_host(printing->num_bytes);
  // The queue copies, then calls, then goes on: the next cycle's values come only when these have been logged.
  return function_kernel(
      [queues, printing, num_bytes = x.bytes()](const KernelArguments& arguments) {
        if (printing->num_bytes > 0) {
          queues->copy_to_host(Queue::compute, printing->pinned->data(), arguments.inputs[0], printing->num_bytes);
        }
        gpu::launch_host(arguments.queue, log_values, printing.get());
        gpu::copy_bytes(arguments.queue, arguments.outputs[0], arguments.inputs[0], num_bytes);
      },
      {.in_place = {{0, 0}}});
}

}  // namespace

void add_identities_cuda_kernels(KernelRegistry& registry) {
  registry.add(
      "stop_gradient", [](const KernelRequest& request) { return gpu::copy_kernel(request.outputs[0].bytes()); },
      Bf16::native);
  registry.add(
      "custom_gradient", [](const KernelRequest& request) { return gpu::copy_kernel(request.outputs[0].bytes()); },
      Bf16::native);
  registry.add("print", make_print, Bf16::native);
  // Swaps are copies between device and host: the executor carries them, no kernel does.
}

}  // namespace sectionflow
