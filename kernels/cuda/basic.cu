#include <array>
#include <cstring>

#include "device/device_queues.h"
#include "graph/ops/basic.h"
#include "kernels/convert_element.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

/// Content so small that it is passed with the launch.
struct SmallContent {
  static constexpr std::size_t kBytes = 512;
  std::array<unsigned char, kBytes> bytes;
  unsigned char* y;
  SF_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = bytes.data()[i]; }
};

std::unique_ptr<Kernel> make_small_constant(const HostTensor& content) {
  SmallContent body{};
  std::memcpy(body.bytes.data(), content.bytes(), content.num_bytes());
  return function_kernel(
      [body, count = static_cast<std::int64_t>(content.num_bytes())](const KernelArguments& arguments) {
        SmallContent placed = body;
        placed.y = static_cast<unsigned char*>(arguments.outputs[0]);
        gpu::launch_each(arguments.queue, count, placed);
      });
}

std::unique_ptr<Kernel> make_constant(const KernelRequest& request) {
  const HostTensor& content = *request.node.options<ConstantOptions>().content;
  if (content.num_bytes() <= SmallContent::kBytes) return make_small_constant(content);
  // Memory that the device copies from by itself, for as long as the kernel lives.
  DeviceQueues* queues = request.device.queues();
  std::shared_ptr<DeviceMemory> pinned = queues->allocate_host(content.num_bytes());
  std::memcpy(pinned->data(), content.bytes(), content.num_bytes());
  return function_kernel([queues, pinned](const KernelArguments& arguments) {
    queues->copy_from_host(Queue::compute, arguments.outputs[0], pinned->data(), pinned->num_bytes());
  });
}

template <class T>
struct Fill {
  T* y;
  T value;
  SF_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = value; }
};

std::unique_ptr<Kernel> make_fill(const KernelRequest& request) {
  const std::int64_t count = request.outputs[0].shape.num_elements();
  const double value = request.node.options<FillOptions>().value;
  return with_element_type(request.outputs[0].dtype, [=](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel([count, filling = convert_element<T>(value)](const KernelArguments& arguments) {
      gpu::launch_each(arguments.queue, count, Fill<T>{static_cast<T*>(arguments.outputs[0]), filling});
    });
  });
}

}  // namespace

void add_basic_cuda_kernels(KernelRegistry& registry) {
  registry.add("constant", make_constant, Bf16::native);
  registry.add("fill", make_fill, Bf16::native);
}

}  // namespace sectionflow
