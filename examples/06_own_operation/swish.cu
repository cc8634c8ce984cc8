#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

#include "base/error.h"
#include "kernels/function_kernel.h"
#include "swish.h"
#include "swish_cuda.h"
#include "swish_formulas.h"

namespace acme {
namespace {

using namespace sectionflow;

constexpr int kThreads = 256;

__global__ void swish_forward(std::int64_t count, float slope, const float* x, float* y) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) y[i] = Swish{slope}(x[i]);
}

__global__ void swish_backward(std::int64_t count, float slope, const float* dy, const float* x, float* dx) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) dx[i] = SwishGrad{slope}(dy[i], x[i]);
}

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

void check_launch() {
  const cudaError_t status = cudaGetLastError();
  SF_CHECK(status == cudaSuccess, DeviceError, "acme.swish: ", cudaGetErrorString(status));
}

std::unique_ptr<Kernel> make_forward(const KernelRequest& request) {
  const std::int64_t count = request.outputs[0].shape.num_elements();
  const float slope = request.node.options<SwishOptions>().slope;
  return function_kernel(
      [=](const KernelArguments& arguments) {
        if (count == 0) return;
        swish_forward<<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(arguments.queue)>>>(
            count, slope, static_cast<const float*>(arguments.inputs[0]), static_cast<float*>(arguments.outputs[0]));
        check_launch();
      },
      {.in_place = {{.input = 0, .output = 0}}});
}

std::unique_ptr<Kernel> make_backward(const KernelRequest& request) {
  const std::int64_t count = request.outputs[0].shape.num_elements();
  const float slope = request.node.options<SwishOptions>().slope;
  return function_kernel(
      [=](const KernelArguments& arguments) {
        if (count == 0) return;
        swish_backward<<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(arguments.queue)>>>(
            count, slope, static_cast<const float*>(arguments.inputs[0]),
            static_cast<const float*>(arguments.inputs[1]), static_cast<float*>(arguments.outputs[0]));
        check_launch();
      },
      {.in_place = {{.input = 0, .output = 0}, {.input = 1, .output = 0}}});
}

}  // namespace

void add_swish_cuda_kernels(KernelRegistry& registry) {
  registry.add("acme.swish", make_forward);
  registry.add("acme.swish_grad", make_backward);
}

}  // namespace acme
