#include "graph/ops/activation.h"

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_relu(const KernelRequest& request) {
  // NaN passes, since it is not <= 0.
  return map_kernel(request, [](float x) { return x <= 0.0F ? 0.0F : x; });
}
std::unique_ptr<Kernel> make_relu_grad(const KernelRequest& request) {
  return map_kernel(request, [](float dy, float y) { return y > 0.0F ? dy : 0.0F; });
}

std::unique_ptr<Kernel> make_tanh(const KernelRequest& request) {
  return map_kernel(request, [](float x) { return vector_math::tanh(x); });
}
std::unique_ptr<Kernel> make_tanh_grad(const KernelRequest& request) {
  return map_kernel(request, [](float dy, float y) { return dy * (1.0F - y * y); });
}

std::unique_ptr<Kernel> make_sigmoid(const KernelRequest& request) {
  return map_kernel(request, [](float x) { return vector_math::sigmoid(x); });
}
std::unique_ptr<Kernel> make_sigmoid_grad(const KernelRequest& request) {
  return map_kernel(request, [](float dy, float y) { return dy * (y * (1.0F - y)); });
}

std::unique_ptr<Kernel> make_silu(const KernelRequest& request) {
  return map_kernel(request, [](float x) { return x * vector_math::sigmoid(x); });
}
std::unique_ptr<Kernel> make_silu_grad(const KernelRequest& request) {
  return map_kernel(request, [](float dy, float x) {
    const float s = vector_math::sigmoid(x);
    return dy * (s * (1.0F + x * (1.0F - s)));
  });
}

// (1 + tanh(u)) / 2 = sigmoid(2 u), where 2 u = kSlope (x + kCubic x^3).
constexpr float kSlope = 1.59576912F;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715F;

float gelu_of_tanh(float x) {
  return x * vector_math::sigmoid(kSlope * (x + kCubic * (x * x * x)));
}
float slope_of_gelu_of_tanh(float x) {
  // Beyond 10 the slope is 0 or 1 to the last digit; without a bound, large x would give infinity times 0.
  const float bounded = vector_math::select(x > 10.0F, 10.0F, vector_math::select(x < -10.0F, -10.0F, x));
  const float square = bounded * bounded;
  const float s = vector_math::sigmoid(kSlope * (bounded + kCubic * (square * bounded)));
  return s + bounded * (s * (1.0F - s)) * (kSlope * (1.0F + 3.0F * kCubic * square));
}

std::unique_ptr<Kernel> make_gelu(const KernelRequest& request) {
  if (request.node.options<GeluOptions>().approximation == Gelu::tanh) {
    return map_kernel(request, [](float x) { return gelu_of_tanh(x); });
  }
  return map_kernel(request, [](float x) { return x * vector_math::normal(x).probability; });
}
std::unique_ptr<Kernel> make_gelu_grad(const KernelRequest& request) {
  if (request.node.options<GeluOptions>().approximation == Gelu::tanh) {
    return map_kernel(request, [](float dy, float x) { return dy * slope_of_gelu_of_tanh(x); });
  }
  return map_kernel(request, [](float dy, float x) {
    const vector_math::Normal at_x = vector_math::normal(x);
    return dy * (at_x.probability + x * at_x.density);
  });
}

}  // namespace

void add_activation_cpu_kernels(KernelRegistry& registry) {
  registry.add("relu", make_relu);
  registry.add("relu_grad", make_relu_grad);
  registry.add("tanh", make_tanh);
  registry.add("tanh_grad", make_tanh_grad);
  registry.add("sigmoid", make_sigmoid);
  registry.add("sigmoid_grad", make_sigmoid_grad);
  registry.add("silu", make_silu);
  registry.add("silu_grad", make_silu_grad);
  registry.add("gelu", make_gelu);
  registry.add("gelu_grad", make_gelu_grad);
}

}  // namespace sectionflow
