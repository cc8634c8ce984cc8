#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/dtype.h"
#include "graph/nodes/unary.h"
#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/formulas/arithmetic.h"
#include "kernels/formulas/unary.h"
#include "kernels/kernel.h"

namespace sectionflow::gpu {

/// What kernels of chains compute from each element. A sum may be followed by any of them.
enum class ChainFormula { none, add, relu, relu_grad, tanh, sigmoid, silu, gelu, gelu_of_tanh };

/// The formula of a type; `none` for those that are in no chain.
template <class Formula>
inline constexpr ChainFormula kChainFormula = ChainFormula::none;
template <>
inline constexpr ChainFormula kChainFormula<formulas::Add> = ChainFormula::add;
template <>
inline constexpr ChainFormula kChainFormula<formulas::Relu> = ChainFormula::relu;
template <>
inline constexpr ChainFormula kChainFormula<formulas::ReluGrad> = ChainFormula::relu_grad;
template <>
inline constexpr ChainFormula kChainFormula<formulas::Tanh> = ChainFormula::tanh;
template <>
inline constexpr ChainFormula kChainFormula<formulas::Sigmoid> = ChainFormula::sigmoid;
template <>
inline constexpr ChainFormula kChainFormula<formulas::Silu> = ChainFormula::silu;
template <>
inline constexpr ChainFormula kChainFormula<formulas::Gelu> = ChainFormula::gelu;
template <>
inline constexpr ChainFormula kChainFormula<formulas::GeluOfTanh> = ChainFormula::gelu_of_tanh;

/// What an element-wise kernel is to a chain: output[j] = formula(input 0 [j], input 1 [...]) for j below `count`.
struct ChainLink {
  ChainFormula formula = ChainFormula::none;
  Dtype dtype = Dtype::f32;   ///< of all inputs and the output
  std::int64_t count = 0;     ///< elements of the output and of input 0
  std::int64_t channels = 0;  ///< elements of input 1, one a channel; 0: it has `count` of them
  std::int64_t inner = 1;     ///< neighbours of one channel
};

/// `kernel` as one that takes part in chains.
std::unique_ptr<Kernel> linked_kernel(const ChainLink& link, std::unique_ptr<Kernel> kernel);

/// The same for a kernel of the formula whose inputs are all of the output's type and number of elements, f32 or bf16;
/// other kernels are given back as they are.
template <class Formula>
std::unique_ptr<Kernel> linked(const KernelRequest& request, std::unique_ptr<Kernel> kernel) {
  if (kChainFormula<Formula> == ChainFormula::none) return kernel;
  const TensorType& y = request.outputs[0];
  for (const TensorType& x : request.inputs) {
    if (x.dtype != y.dtype || x.shape.num_elements() != y.shape.num_elements()) return kernel;
  }
  return linked_kernel({.formula = kChainFormula<Formula>, .dtype = y.dtype, .count = y.shape.num_elements()},
                       std::move(kernel));
}

/// What ElementwiseFamily asks of packs a thread, which may be links of chains, but for the kernels of one file.
struct LinkedElements {
  template <class Formula>
  static std::unique_ptr<Kernel> map(const KernelRequest& request, const Formula& formula) {
    return map_kernel(request, formula);
  }
  template <class Y, class... X, class Function>
  static std::unique_ptr<Kernel> broadcast(const KernelRequest& request, Function function) {
    return broadcast_kernel<Y, X...>(request, function);
  }
  template <class Formula>
  static std::unique_ptr<Kernel> linked(const KernelRequest& request, std::unique_ptr<Kernel> kernel) {
    return gpu::linked<Formula>(request, std::move(kernel));
  }
};

}  // namespace sectionflow::gpu
