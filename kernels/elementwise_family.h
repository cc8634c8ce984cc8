#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "graph/nodes/unary.h"
#include "kernels/convert_element.h"
#include "kernels/formulas/arithmetic.h"
#include "kernels/formulas/unary.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

namespace sectionflow {

/// What is computed element by element: the formulas and types that requests ask for. How a device goes through the
/// elements is up to `Elements`, whose static functions make a kernel each:
/// - `broadcast<Y, X...>(request, function)`: y = function(x...), with inputs that are broadcast to y's shape;
/// - `map(request, function)`: the same of floats, f32 or bf16, that have y's shape;
/// - `sine<Formula, Near, BelowFar>(request)`: the same of a formula that Near is where numbers are near 0, and
/// BelowFar
///   where they are not far from it;
/// - `linked<Formula>(request, kernel)`: the kernel, which may become part of a chain;
/// - `copy(num_bytes)` and `conversion<From, To>(count)`, of elements.
template <class Elements>
class ElementwiseFamily {
 public:
  static void add_arithmetic(KernelRegistry& registry) {
    registry.add("add", of_numbers<formulas::Add, std::uint32_t, std::uint64_t>, Bf16::native);
    registry.add("sub", of_numbers<formulas::Subtract, std::uint32_t, std::uint64_t>, Bf16::native);
    registry.add("mul", of_numbers<formulas::Multiply, std::uint32_t, std::uint64_t>, Bf16::native);
    registry.add("div", of_two<formulas::Divide>, Bf16::native);
    registry.add("maximum", of_numbers<formulas::Maximum, std::int32_t, std::int64_t>, Bf16::native);
    registry.add("minimum", of_numbers<formulas::Minimum, std::int32_t, std::int64_t>, Bf16::native);
    registry.add("maximum_grad", of_three<formulas::MaximumGrad>, Bf16::native);
    registry.add("minimum_grad", of_three<formulas::MinimumGrad>, Bf16::native);
    registry.add("equal", comparison<formulas::Equal>, Bf16::native);
    registry.add("not_equal", comparison<formulas::NotEqual>, Bf16::native);
    registry.add("less", comparison<formulas::Less>, Bf16::native);
    registry.add("less_equal", comparison<formulas::LessEqual>, Bf16::native);
    registry.add("greater", comparison<formulas::Greater>, Bf16::native);
    registry.add("greater_equal", comparison<formulas::GreaterEqual>, Bf16::native);
    registry.add("logical_and", logical<formulas::And>);
    registry.add("logical_or", logical<formulas::Or>);
    registry.add("logical_xor", logical<formulas::Xor>);
    registry.add("select", select, Bf16::native);
  }

  static void add_unary(KernelRegistry& registry) {
    registry.add("neg", negated, Bf16::native);
    registry.add("square", of_one<formulas::Square>, Bf16::native);
    registry.add("square_grad", of_one<formulas::SquareGrad>, Bf16::native);
    registry.add("sqrt", of_one<formulas::Sqrt>, Bf16::native);
    registry.add("sqrt_grad", of_one<formulas::SqrtGrad>, Bf16::native);
    registry.add("rsqrt", of_one<formulas::Rsqrt>, Bf16::native);
    registry.add("rsqrt_grad", of_one<formulas::RsqrtGrad>, Bf16::native);
    registry.add("exp", of_one<formulas::Exp>, Bf16::native);
    registry.add("log", of_one<formulas::Log>, Bf16::native);
    registry.add("expm1", of_one<formulas::Expm1>, Bf16::native);
    registry.add("log1p", of_one<formulas::Log1p>, Bf16::native);
    registry.add("abs", of_one<formulas::Abs>, Bf16::native);
    registry.add("sign", of_one<formulas::Sign>, Bf16::native);
    registry.add("sin", Elements::template sine<formulas::Sin, formulas::SinNear, formulas::SinBelowFar>, Bf16::native);
    registry.add("cos", Elements::template sine<formulas::Cos, formulas::CosNear, formulas::CosBelowFar>, Bf16::native);
    registry.add("erf", of_one<formulas::Erf>, Bf16::native);
    registry.add("is_finite", finite, Bf16::native);
    registry.add("logical_not", negation);
    registry.add("relu", of_one<formulas::Relu>, Bf16::native);
    registry.add("relu_grad", of_one<formulas::ReluGrad>, Bf16::native);
    registry.add("tanh", of_one<formulas::Tanh>, Bf16::native);
    registry.add("tanh_grad", of_one<formulas::TanhGrad>, Bf16::native);
    registry.add("sigmoid", of_one<formulas::Sigmoid>, Bf16::native);
    registry.add("sigmoid_grad", of_one<formulas::SigmoidGrad>, Bf16::native);
    registry.add("silu", of_one<formulas::Silu>, Bf16::native);
    registry.add("silu_grad", of_one<formulas::SiluGrad>, Bf16::native);
    registry.add("gelu", gelu<formulas::Gelu, formulas::GeluOfTanh>, Bf16::native);
    registry.add("gelu_grad", gelu<formulas::GeluGrad, formulas::GeluOfTanhGrad>, Bf16::native);
    registry.add("softplus", of_one<formulas::Softplus>, Bf16::native);
    registry.add("mish", of_one<formulas::Mish>, Bf16::native);
    registry.add("mish_grad", of_one<formulas::MishGrad>, Bf16::native);
    registry.add("hard_swish", of_one<formulas::HardSwish>, Bf16::native);
    registry.add("hard_swish_grad", of_one<formulas::HardSwishGrad>, Bf16::native);
    registry.add("leaky_relu", leaky_relu<formulas::LeakyRelu>, Bf16::native);
    registry.add("leaky_relu_grad", leaky_relu<formulas::LeakyReluGrad>, Bf16::native);
    registry.add("elu", elu<formulas::Elu>, Bf16::native);
    registry.add("elu_grad", elu<formulas::EluGrad>, Bf16::native);
    registry.add("clip", clip<formulas::Clip>, Bf16::native);
    registry.add("clip_grad", clip<formulas::ClipGrad>, Bf16::native);
    registry.add("cast", cast, Bf16::native);
  }

  /// Floats, f32 or bf16.
  template <class Formula>
  static std::unique_ptr<Kernel> of_two(const KernelRequest& request) {
    auto kernel = of_floats<Formula, float, float>(request);
    return kernel == nullptr ? nullptr : Elements::template linked<Formula>(request, std::move(kernel));
  }
  template <class Formula>
  static std::unique_ptr<Kernel> of_three(const KernelRequest& request) {
    return of_floats<Formula, float, float, float>(request);
  }

 private:
  using Made = std::unique_ptr<Kernel>;

  template <class Formula, class... Float>
  static Made of_floats(const KernelRequest& request) {
    const Dtype dtype = request.outputs[0].dtype;
    if (dtype != Dtype::f32 && dtype != Dtype::bf16) return nullptr;
    return with_stored_type(dtype, [&](auto element) {
      using T = decltype(element);
      return Elements::template broadcast<T, std::conditional_t<true, T, Float>...>(request, OfStored<T, Formula>{});
    });
  }
  /// Floats, i32 and i64, which are `Narrow` and `Wide` here.
  template <class Formula, class Narrow, class Wide>
  static Made of_numbers(const KernelRequest& request) {
    const Dtype dtype = request.outputs[0].dtype;
    if (dtype == Dtype::i32) return Elements::template broadcast<Narrow, Narrow, Narrow>(request, Formula());
    if (dtype == Dtype::i64) return Elements::template broadcast<Wide, Wide, Wide>(request, Formula());
    return of_two<Formula>(request);
  }
  template <class Comparison>
  static Made comparison(const KernelRequest& request) {
    return with_element_type(request.inputs[0].dtype, [&](auto element) {
      using T = decltype(element);
      return Elements::template broadcast<bool, T, T>(request, Comparison());
    });
  }
  template <class Formula>
  static Made logical(const KernelRequest& request) {
    return Elements::template broadcast<bool, bool, bool>(request, Formula());
  }
  static Made select(const KernelRequest& request) {
    return with_element_type(request.inputs[1].dtype, [&](auto element) {
      using T = decltype(element);
      return Elements::template broadcast<T, bool, T, T>(request, formulas::Select());
    });
  }

  /// Of floats that have y's shape: one, or a gradient and another.
  template <class Formula>
  static Made of_one(const KernelRequest& request) {
    return Elements::template linked<Formula>(request, Elements::map(request, Formula()));
  }
  template <class OfErf, class OfTanh>
  static Made gelu(const KernelRequest& request) {
    const bool of_tanh = request.node.options<GeluOptions>().approximation == Gelu::tanh;
    return of_tanh ? of_one<OfTanh>(request) : of_one<OfErf>(request);
  }
  template <class Formula>
  static Made leaky_relu(const KernelRequest& request) {
    return Elements::map(request, Formula{request.node.options<LeakyReluOptions>().negative_slope});
  }
  template <class Formula>
  static Made elu(const KernelRequest& request) {
    return Elements::map(request, Formula{request.node.options<EluOptions>().alpha});
  }
  template <class Formula>
  static Made clip(const KernelRequest& request) {
    const auto [low, high] = request.node.options<ClipOptions>();
    return Elements::map(request, Formula{low, high});
  }
  static Made negated(const KernelRequest& request) {
    if (request.inputs[0].dtype != Dtype::i64) return of_one<formulas::Negate>(request);
    return Elements::template broadcast<std::uint64_t, std::uint64_t>(request, formulas::Negate());
  }
  static Made finite(const KernelRequest& request) {
    return with_stored_type(request.inputs[0].dtype, [&](auto element) {
      return Elements::template broadcast<bool, decltype(element)>(request, formulas::IsFinite());
    });
  }
  static Made negation(const KernelRequest& request) {
    return Elements::template broadcast<bool, bool>(request, formulas::Not());
  }
  static Made cast(const KernelRequest& request) {
    const Dtype from = request.inputs[0].dtype, to = request.outputs[0].dtype;
    if (from == to) return Elements::copy(request.outputs[0].bytes());
    // Never in place otherwise: elements of two C++ types in the same bytes would be at the mercy of alias analysis.
    return with_element_type(from, [&](auto x) {
      return with_element_type(to, [&](auto y) {
        return Elements::template conversion<decltype(x), decltype(y)>(request.inputs[0].shape.num_elements());
      });
    });
  }
};

}  // namespace sectionflow
