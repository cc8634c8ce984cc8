#include <cmath>

#include "graph/ops/softmax.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/row_teams.h"
#include "kernels/cuda/stored_type.h"
#include "kernels/function_kernel.h"
#include "kernels/vector_math.h"

namespace sectionflow {
namespace {

/// y = e^(x - m) / sum, or x - m - ln sum, m the largest of the row; y may be x.
template <class T, bool kLog>
struct Softmax {
  gpu::RowTeams rows;
  const T* x;
  T* y;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    gpu::RowTeam<Thread> team(thread, rows);
    for (std::int64_t n = team.first_row(); n < rows.count; n += team.row_step()) {
      const T* row = x + n * rows.length;
      T* result = y + n * rows.length;
      const float shift = team.max(row);
      const double sum = team.sum([=](std::int64_t i) { return vector_math::exp(row[i] - shift); });
      const float scale = static_cast<float>(1.0 / sum), log_sum = static_cast<float>(std::log(sum));
      team.map(result, [=](std::int64_t i) {
        return kLog ? (row[i] - shift) - log_sum : vector_math::exp(row[i] - shift) * scale;
      });
    }
  }
};

/// dx = y (dy - sum dy y), or dy - e^y sum dy; it may be dy or y.
template <class T, bool kLog>
struct SoftmaxGrad {
  gpu::RowTeams rows;
  const T *dy, *y;
  T* dx;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    gpu::RowTeam<Thread> team(thread, rows);
    for (std::int64_t n = team.first_row(); n < rows.count; n += team.row_step()) {
      const T *slope = dy + n * rows.length, *row = y + n * rows.length;
      T* result = dx + n * rows.length;
      const auto sum = static_cast<float>(
          team.sum([=](std::int64_t i) { return kLog ? static_cast<float>(slope[i]) : slope[i] * row[i]; }));
      team.map(result, [=](std::int64_t i) {
        return kLog ? slope[i] - vector_math::exp(row[i]) * sum : row[i] * (slope[i] - sum);
      });
    }
  }
};

template <bool kLog>
std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) {
  return gpu::with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel(
        [rows = gpu::RowTeams(request.outputs[0].shape)](const KernelArguments& arguments) {
          gpu::launch_blocks(arguments.queue, rows.launch_shape(),
                             Softmax<T, kLog>{rows, static_cast<const T*>(arguments.inputs[0]),
                                              static_cast<T*>(arguments.outputs[0])});
        },
        {.in_place = {{0, 0}}});
  });
}

template <bool kLog>
std::unique_ptr<Kernel> make_softmax_grad(const KernelRequest& request) {
  return gpu::with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel(
        [rows = gpu::RowTeams(request.outputs[0].shape)](const KernelArguments& arguments) {
          gpu::launch_blocks(
              arguments.queue, rows.launch_shape(),
              SoftmaxGrad<T, kLog>{rows, static_cast<const T*>(arguments.inputs[0]),
                                   static_cast<const T*>(arguments.inputs[1]), static_cast<T*>(arguments.outputs[0])});
        },
        {.in_place = {{0, 0}, {1, 0}}});
  });
}

}  // namespace

void add_softmax_cuda_kernels(KernelRegistry& registry) {
  registry.add("softmax", make_softmax<false>, Bf16::native);
  registry.add("softmax_grad", make_softmax_grad<false>, Bf16::native);
  registry.add("log_softmax", make_softmax<true>, Bf16::native);
  registry.add("log_softmax_grad", make_softmax_grad<true>, Bf16::native);
}

}  // namespace sectionflow
