#include "graph/ops/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "device/parallel.h"
#include "kernels/cpu/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// What a row of labels says: a class number, or a probability for each class.
template <class Label>
struct Labels {
  static constexpr bool kIsClass = std::is_integral_v<Label>;
  const Label* data;  // [N] or [N, C]
  std::int64_t num_classes;

  Label class_of(std::int64_t n) const { return data[n]; }
  bool is_valid(std::int64_t n) const { return data[n] >= 0 && static_cast<std::int64_t>(data[n]) < num_classes; }
  const Label* probabilities(std::int64_t n) const { return data + n * num_classes; }
};

std::int64_t row_grain(std::int64_t num_classes) {
  constexpr std::int64_t kExponentialsAThread = 2048;
  return std::max<std::int64_t>(1, kExponentialsAThread / num_classes);
}

/// sum_c p_c (x_c - shift); a class of probability 0 adds nothing, whatever its logit.
double expected_logit(const float* p, const float* x, float shift, std::int64_t num_classes) {
  double sum = 0;
  for (std::int64_t c = 0; c < num_classes; ++c) {
    if (p[c] != 0) sum += static_cast<double>(p[c]) * (x[c] - shift);
  }
  return sum;
}

/// y = softmax(x), which may lie over x; returns log sum_c exp(x_c - shift), where shift = max_c x_c keeps exp finite.
double softmax_row(float* y, const float* x, float shift, std::int64_t num_classes) {
  double sum = 0;
  for (std::int64_t c = 0; c < num_classes; ++c) {
    y[c] = std::exp(x[c] - shift);
    sum += y[c];
  }
  const float scale = static_cast<float>(1.0 / sum);
#pragma omp simd
  for (std::int64_t c = 0; c < num_classes; ++c) y[c] = y[c] * scale;
  return std::log(sum);
}

template <class Label>
float loss_and_softmax(float* probabilities, const float* x, const Labels<Label>& labels, std::int64_t n) {
  const std::int64_t num_classes = labels.num_classes;
  const float shift = *std::max_element(x, x + num_classes);
  // Before the softmax, which may overwrite x.
  double label_logit, label_sum = 1;
  if constexpr (Labels<Label>::kIsClass) {
    label_logit = labels.is_valid(n) ? x[labels.class_of(n)] - shift : kNaN;
  } else {
    const float* p = labels.probabilities(n);
    label_logit = expected_logit(p, x, shift, num_classes);
    label_sum = 0;
    for (std::int64_t c = 0; c < num_classes; ++c) label_sum += p[c];
  }
  const double log_sum = softmax_row(probabilities, x, shift, num_classes);
  return static_cast<float>(label_sum * log_sum - label_logit);
}

template <class Label>
std::unique_ptr<Kernel> make_forward_of(const KernelRequest& request) {
  const std::int64_t num_rows = request.inputs[0].shape[0];
  const std::int64_t num_classes = request.inputs[0].shape[1];
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const float* logits = static_cast<const float*>(arguments.inputs[0]);  // [N, C]
        const Labels<Label> labels{static_cast<const Label*>(arguments.inputs[1]), num_classes};
        float* loss = static_cast<float*>(arguments.outputs[0]);           // [N]
        float* probabilities = static_cast<float*>(arguments.outputs[1]);  // [N, C]
        parallel_for(num_rows, row_grain(num_classes), [=](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            loss[n] = loss_and_softmax(probabilities + n * num_classes, logits + n * num_classes, labels, n);
          }
        });
      },
      {.in_place = {{0, 1}}});
}

/// dx = dloss (softmax(x) - p); `dx` may lie over either.
template <class Label>
void gradient_row(float* dx, const float* probabilities, const Labels<Label>& labels, std::int64_t n, float dloss) {
  const std::int64_t num_classes = labels.num_classes;
  if constexpr (Labels<Label>::kIsClass) {
    if (!labels.is_valid(n)) {
      std::fill(dx, dx + num_classes, kNaN);
      return;
    }
    const float at_label = dloss * (probabilities[labels.class_of(n)] - 1.0F);
#pragma omp simd
    for (std::int64_t c = 0; c < num_classes; ++c) dx[c] = dloss * probabilities[c];
    dx[labels.class_of(n)] = at_label;
  } else {
    const float* p = labels.probabilities(n);
#pragma omp simd
    for (std::int64_t c = 0; c < num_classes; ++c) dx[c] = dloss * (probabilities[c] - p[c]);
  }
}

template <class Label>
std::unique_ptr<Kernel> make_gradient_of(const KernelRequest& request) {
  const std::int64_t num_rows = request.inputs[0].shape[0];
  const std::int64_t num_classes = request.inputs[0].shape[1];
  std::vector<InPlace> in_place = {{0, 0}};
  if constexpr (!Labels<Label>::kIsClass) in_place.push_back({1, 0});
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const float* probabilities = static_cast<const float*>(arguments.inputs[0]);  // [N, C]
        const Labels<Label> labels{static_cast<const Label*>(arguments.inputs[1]), num_classes};
        const float* dloss = static_cast<const float*>(arguments.inputs[2]);  // [N]
        float* dx = static_cast<float*>(arguments.outputs[0]);                // [N, C]
        const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / num_classes);
        parallel_for(num_rows, grain, [=](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            gradient_row(dx + n * num_classes, probabilities + n * num_classes, labels, n, dloss[n]);
          }
        });
      },
      {.in_place = std::move(in_place)});
}

std::unique_ptr<Kernel> make_forward(const KernelRequest& request) {
  switch (request.inputs[1].dtype) {
    case Dtype::i32:
      return make_forward_of<std::int32_t>(request);
    case Dtype::i64:
      return make_forward_of<std::int64_t>(request);
    case Dtype::f32:
      return make_forward_of<float>(request);
    default:
      return nullptr;
  }
}

std::unique_ptr<Kernel> make_gradient(const KernelRequest& request) {
  switch (request.inputs[1].dtype) {
    case Dtype::i32:
      return make_gradient_of<std::int32_t>(request);
    case Dtype::i64:
      return make_gradient_of<std::int64_t>(request);
    case Dtype::f32:
      return make_gradient_of<float>(request);
    default:
      return nullptr;
  }
}

}  // namespace

void add_softmax_cross_entropy_cpu_kernels(KernelRegistry& registry) {
  registry.add("softmax_cross_entropy", make_forward);
  registry.add("softmax_cross_entropy_grad", make_gradient);
}

}  // namespace sectionflow
