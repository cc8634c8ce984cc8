#include "graph/ops/softmax.h"

#include <cmath>

#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/rows.h"
#include "kernels/function_kernel.h"
#include "kernels/vector_math.h"

namespace sectionflow {
namespace {

/// y = e^(x - m) / sum, or x - m - ln sum: a block a row, m its largest element.
template <bool kLog>
struct SoftmaxRow {
  const float* x;
  float* y;
  std::int64_t length;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const float* row = x + thread.block() * length;
    float* result = y + thread.block() * length;
    const float shift = gpu::row_max(thread, row, length, 0);
    const auto exponential = [=](std::int64_t i) { return static_cast<double>(vector_math::exp(row[i] - shift)); };
    const double sum = gpu::row_sum(thread, length, gpu::reduce_bytes<float>(), exponential);
    const float scale = static_cast<float>(1.0 / sum), log_sum = static_cast<float>(std::log(sum));
    for (std::int64_t i = thread.index(); i < length; i += thread.block_size()) {
      result[i] = kLog ? (row[i] - shift) - log_sum : vector_math::exp(row[i] - shift) * scale;
    }
  }
};

/// dx = y (dy - sum dy y), or dy - e^y sum dy: a block a row.
template <bool kLog>
struct SoftmaxGradRow {
  const float* dy;
  const float* y;
  float* dx;
  std::int64_t length;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const std::int64_t begin = thread.block() * length;
    const float* slope = dy + begin;
    const float* row = y + begin;
    const auto term = [=](std::int64_t i) { return static_cast<double>(kLog ? slope[i] : slope[i] * row[i]); };
    const float sum = static_cast<float>(gpu::row_sum(thread, length, 0, term));
    for (std::int64_t i = thread.index(); i < length; i += thread.block_size()) {
      dx[begin + i] = kLog ? slope[i] - vector_math::exp(row[i]) * sum : row[i] * (slope[i] - sum);
    }
  }
};

template <bool kLog>
std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) {
  return function_kernel(
      [rows = gpu::Rows(request.outputs[0].shape)](const KernelArguments& arguments) {
        gpu::launch_blocks(arguments.queue, rows.launch_shape(gpu::reduce_bytes<float>() + gpu::reduce_bytes<double>()),
                           SoftmaxRow<kLog>{static_cast<const float*>(arguments.inputs[0]),
                                            static_cast<float*>(arguments.outputs[0]), rows.length});
      },
      {.in_place = {{0, 0}}});
}

template <bool kLog>
std::unique_ptr<Kernel> make_softmax_grad(const KernelRequest& request) {
  return function_kernel(
      [rows = gpu::Rows(request.outputs[0].shape)](const KernelArguments& arguments) {
        gpu::launch_blocks(arguments.queue, rows.launch_shape(gpu::reduce_bytes<double>()),
                           SoftmaxGradRow<kLog>{static_cast<const float*>(arguments.inputs[0]),
                                                static_cast<const float*>(arguments.inputs[1]),
                                                static_cast<float*>(arguments.outputs[0]), rows.length});
      },
      {.in_place = {{0, 0}, {1, 0}}});
}

}  // namespace

void add_softmax_cuda_kernels(KernelRegistry& registry) {
  registry.add("softmax", make_softmax<false>);
  registry.add("softmax_grad", make_softmax_grad<false>);
  registry.add("log_softmax", make_softmax<true>);
  registry.add("log_softmax_grad", make_softmax_grad<true>);
}

}  // namespace sectionflow
