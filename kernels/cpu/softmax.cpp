#include "graph/ops/softmax.h"

#include <cmath>

#include "kernels/cpu/for_each_row.h"
#include "kernels/cpu/row_max.h"
#include "kernels/cpu/row_sum.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/vector_math.h"

namespace sectionflow {
namespace {

// A row is read from memory once: the later passes over it find it in the cache.

void softmax_row(float* y, const float* x, std::int64_t length) {
  const float shift = row_max(x, length);  // keeps exp finite
  const double sum = row_sum(length, [=](std::int64_t i) { return y[i] = vector_math::exp(x[i] - shift); });
  const float scale = static_cast<float>(1.0 / sum);
#pragma omp simd
  for (std::int64_t i = 0; i < length; ++i) y[i] = y[i] * scale;
}

void log_softmax_row(float* y, const float* x, std::int64_t length) {
  const float shift = row_max(x, length);
  const double sum = row_sum(length, [=](std::int64_t i) { return vector_math::exp(x[i] - shift); });
  const float log_sum = static_cast<float>(std::log(sum));
#pragma omp simd
  for (std::int64_t i = 0; i < length; ++i) y[i] = (x[i] - shift) - log_sum;
}

void softmax_grad_row(float* dx, const float* dy, const float* y, std::int64_t length) {
  const float mean = static_cast<float>(row_sum(length, [=](std::int64_t i) { return dy[i] * y[i]; }));
#pragma omp simd
  for (std::int64_t i = 0; i < length; ++i) dx[i] = y[i] * (dy[i] - mean);
}

void log_softmax_grad_row(float* dx, const float* dy, const float* y, std::int64_t length) {
  const float sum = static_cast<float>(row_sum(length, [=](std::int64_t i) { return dy[i]; }));
#pragma omp simd
  for (std::int64_t i = 0; i < length; ++i) dx[i] = dy[i] - vector_math::exp(y[i]) * sum;
}

/// The rows of a tensor [..., C].
struct Rows {
  explicit Rows(const Shape& shape) : length(shape[-1]), count(length == 0 ? 0 : shape.num_elements() / length) {}
  std::int64_t length, count;
};

template <void (*kRow)(float*, const float*, std::int64_t)>
std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) {
  return function_kernel(
      [rows = Rows(request.outputs[0].shape)](const KernelArguments& arguments) {
        const auto* x = static_cast<const float*>(arguments.inputs[0]);
        auto* y = static_cast<float*>(arguments.outputs[0]);
        for_each_row(rows.count, rows.length,
                     [=, length = rows.length](std::int64_t n) { kRow(y + n * length, x + n * length, length); });
      },
      {.in_place = {{0, 0}}});
}

template <void (*kRow)(float*, const float*, const float*, std::int64_t)>
std::unique_ptr<Kernel> make_gradient(const KernelRequest& request) {
  return function_kernel(
      [rows = Rows(request.outputs[0].shape)](const KernelArguments& arguments) {
        const auto* dy = static_cast<const float*>(arguments.inputs[0]);
        const auto* y = static_cast<const float*>(arguments.inputs[1]);
        auto* dx = static_cast<float*>(arguments.outputs[0]);
        for_each_row(rows.count, rows.length, [=, length = rows.length](std::int64_t n) {
          kRow(dx + n * length, dy + n * length, y + n * length, length);
        });
      },
      {.in_place = {{0, 0}, {1, 0}}});
}

}  // namespace

void add_softmax_cpu_kernels(KernelRegistry& registry) {
  registry.add("softmax", make_softmax<softmax_row>);
  registry.add("softmax_grad", make_gradient<softmax_grad_row>);
  registry.add("log_softmax", make_softmax<log_softmax_row>);
  registry.add("log_softmax_grad", make_gradient<log_softmax_grad_row>);
}

}  // namespace sectionflow
