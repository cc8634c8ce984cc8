#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "graph/nodes/unary.h"
#include "kernels/cuda/chain.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/positions.h"

namespace sectionflow::gpu {
namespace {

/// The operand of a link beside the one at the same place: an element for each, or one a channel.
template <class T>
class Beside {
 public:
  static constexpr int kWidth = pack_width<T>();

  Beside() = default;
  Beside(const ChainLink& link, const void* place)
      : place_(static_cast<const T*>(place)), inner_(link.inner), channels_(link.channels) {
    if (link.channels == 0) {
      order_ = Order::as_they_are;
    } else if (link.inner == 1 && link.channels % kWidth == 0) {
      order_ = Order::neighbours;
    } else {
      order_ = link.inner % kWidth == 0 ? Order::repeated : Order::any;
    }
  }

  SF_HOST_DEVICE T element(std::int64_t j) const { return place_[order_ == Order::as_they_are ? j : channel(j)]; }
  /// Those of a pack from `first` on, a multiple of the width.
  SF_HOST_DEVICE Pack<T, kWidth> load(std::int64_t first) const {
    if (order_ == Order::as_they_are) return load_pack<kWidth>(place_ + first);
    if (order_ == Order::neighbours) return load_pack<kWidth>(place_ + channel(first));
    Pack<T, kWidth> pack;
    const T repeated = element(first);
    for (int lane = 0; lane < kWidth; ++lane) {
      pack.values[lane] = order_ == Order::repeated ? repeated : element(first + lane);
    }
    return pack;
  }

 private:
  /// How a pack's elements lie: all beside each other, within the channels or not; all one; in some other way.
  enum class Order { as_they_are, neighbours, repeated, any };

  SF_HOST_DEVICE std::int64_t channel(std::int64_t j) const {
    std::int64_t of_all = inner_.quotient(j);
    return channels_.cut(of_all);
  }

  const T* place_ = nullptr;
  Order order_ = Order::as_they_are;
  Divisor inner_, channels_;
};

/// sum[j] = x[j] + addend[j], where `sum` is given, and y[j] = second(sum[j]) or second(sum[j], beside[j]) or, where it
/// is on the right, second(beside[j], sum[j]); a pack a thread. y may lie over any operand that is no channel's. All is
/// loaded before anything is stored.
template <class T, class Second>
struct SumAndMore {
  static constexpr int kWidth = pack_width<T>();
  static constexpr bool kHasBeside = !std::is_invocable_v<Second, float>;
  const T* x;
  Beside<T> addend;
  T* sum;
  Beside<T> beside;
  bool is_on_the_right;
  T* y;
  std::int64_t count;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t first = i * kWidth;
    if (first + kWidth > count) {
      for (std::int64_t j = first; j < count; ++j) {
        const T added = rounded_sum(x[j], addend.element(j));
        const T result = of_sum(added, kHasBeside ? beside.element(j) : T());
        if (sum != nullptr) sum[j] = added;
        y[j] = result;
      }
      return;
    }
    Pack<T, kWidth> sums = load_pack<kWidth>(x + first), results{};
    const Pack<T, kWidth> addends = addend.load(first);
    if constexpr (kHasBeside) results = beside.load(first);
    for (int lane = 0; lane < kWidth; ++lane) {
      sums.values[lane] = rounded_sum(sums.values[lane], addends.values[lane]);
      results.values[lane] = of_sum(sums.values[lane], results.values[lane]);
    }
    if (sum != nullptr) store_pack(sum + first, sums);
    store_pack(y + first, results);
  }
  SF_HOST_DEVICE static T rounded_sum(T a, T b) {
    return static_cast<T>(formulas::Add()(static_cast<float>(a), static_cast<float>(b)));
  }
  SF_HOST_DEVICE T of_sum(T added, [[maybe_unused]] T other) const {
    const auto a = static_cast<float>(added);
    if constexpr (kHasBeside) {
      const auto b = static_cast<float>(other);
      return static_cast<T>(is_on_the_right ? Second()(b, a) : Second()(a, b));
    } else {
      return static_cast<T>(Second()(a));
    }
  }
};

template <class Visit>
void with_formula(ChainFormula formula, const Visit& visit) {
  switch (formula) {
    case ChainFormula::add:
      return visit(formulas::Add());
    case ChainFormula::relu:
      return visit(formulas::Relu());
    case ChainFormula::relu_grad:
      return visit(formulas::ReluGrad());
    case ChainFormula::tanh:
      return visit(formulas::Tanh());
    case ChainFormula::sigmoid:
      return visit(formulas::Sigmoid());
    case ChainFormula::silu:
      return visit(formulas::Silu());
    case ChainFormula::gelu:
      return visit(formulas::Gelu());
    case ChainFormula::gelu_of_tanh:
      return visit(formulas::GeluOfTanh());
    case ChainFormula::none:
      break;
  }
  throw InternalError("a kernel of no formula is launched in a chain");
}

class LinkedKernel final : public Kernel {
 public:
  LinkedKernel(const ChainLink& link, std::unique_ptr<Kernel> kernel) : link_(link), kernel_(std::move(kernel)) {}

  std::string implementation() const override { return kernel_->implementation(); }
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  std::vector<InPlace> in_place() const override { return kernel_->in_place(); }
  void launch(const KernelArguments& arguments) override { kernel_->launch(arguments); }

  bool chains_into(const Kernel& next, int operand) const override {
    const auto* second = dynamic_cast<const LinkedKernel*>(&next);
    if (second == nullptr || link_.formula != ChainFormula::add) return false;
    // What has an element a channel is no sum of this many elements, though it may have as many.
    const bool is_element_wise = operand == 0 || second->link_.channels == 0;
    return is_element_wise && second->link_.dtype == link_.dtype && second->link_.count == link_.count;
  }

  void launch_chain(const KernelArguments& arguments, const ChainedKernel& next) override {
    with_stored_type(link_.dtype, [&](auto element) { launch_chain_of<decltype(element)>(arguments, next); });
  }

 private:
  template <class T>
  void launch_chain_of(const KernelArguments& arguments, const ChainedKernel& next) const {
    const ChainLink& second = static_cast<const LinkedKernel&>(next.kernel).link_;
    with_formula(second.formula, [&](auto formula) {
      using Body = SumAndMore<T, decltype(formula)>;
      Body body{static_cast<const T*>(arguments.inputs[0]),
                Beside<T>(link_, arguments.inputs[1]),
                next.stores ? static_cast<T*>(arguments.outputs[0]) : nullptr,
                {},
                next.operand == 1,
                static_cast<T*>(next.arguments.outputs[0]),
                link_.count};
      if constexpr (Body::kHasBeside) body.beside = Beside<T>(second, next.arguments.inputs[1 - next.operand]);
      launch_each(arguments.queue, blocks_for(link_.count, Body::kWidth), body);
    });
  }

  ChainLink link_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

std::unique_ptr<Kernel> linked_kernel(const ChainLink& link, std::unique_ptr<Kernel> kernel) {
  if (link.dtype != Dtype::f32 && link.dtype != Dtype::bf16) return kernel;
  return std::make_unique<LinkedKernel>(link, std::move(kernel));
}

}  // namespace sectionflow::gpu
