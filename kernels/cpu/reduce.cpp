#include "graph/ops/reduce.h"

#include <algorithm>
#include <cmath>

#include "graph/nodes/reduce.h"
#include "kernels/cpu/broadcast_loop.h"
#include "kernels/cpu/fixed_order_reduce.h"
#include "kernels/formulas/reduce.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/reduce_axes.h"
#include "kernels/stored_element.h"

namespace sectionflow {
namespace {

template <class T>
std::unique_ptr<Kernel> make_sum(const ReducePlan& plan, double divisor) {
  return function_kernel(
      [plan, divisor](const KernelArguments& arguments) {
        T* y = static_cast<T*>(arguments.outputs[0]);
        plan.run(static_cast<const T*>(arguments.inputs[0]), static_cast<double*>(arguments.workspace),
                 formulas::SumReducer(), [=](std::int64_t result, double total) {
                   y[result] = stored<T>(static_cast<float>(total / divisor));
                 });
      },
      {.workspace_bytes = static_cast<std::size_t>(plan.num_partials()) * sizeof(double)});
}

/// Of the reducer of maxima or minima.
template <class T, class Reducer>
std::unique_ptr<Kernel> make_choice(const ReducePlan& plan) {
  return function_kernel(
      [plan](const KernelArguments& arguments) {
        T* y = static_cast<T*>(arguments.outputs[0]);
        plan.run(static_cast<const T*>(arguments.inputs[0]), static_cast<float*>(arguments.workspace), Reducer(),
                 [=](std::int64_t result, float total) { y[result] = stored<T>(total); });
      },
      {.workspace_bytes = static_cast<std::size_t>(plan.num_partials()) * sizeof(float)});
}

// Kernels of x, y and their gradients stored as T.

std::unique_ptr<Kernel> make_reduce_of_stored(const KernelRequest& request) {
  return with_stored_type(request.inputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return make_reduce<ReducePlan, make_sum<T>, make_choice<T, formulas::MaxReducer>,
                       make_choice<T, formulas::MinReducer>>(request);
  });
}

template <class T>
std::unique_ptr<Kernel> make_reduce_grad_of(const KernelRequest& request) {
  const Shape& x = request.inputs[1].shape;
  const std::vector<bool> reduced = reduced_axes_of(request, x);
  const bool is_mean = request.node.options<ReduceNodeOptions>().reduction == Reduction::mean;
  const float divisor = is_mean ? static_cast<float>(ReducePlan(x, reduced).num_reduced()) : 1.0F;
  const BroadcastLoop<1> loop(x, {kept_strides(x, reduced)});
  return function_kernel([loop, divisor](const KernelArguments& arguments) {
    const T* dy = static_cast<const T*>(arguments.inputs[0]);
    T* dx = static_cast<T*>(arguments.outputs[0]);
    const OfStored<T, formulas::DivideBy> divide{{divisor}};
    loop.for_each_row([&](std::int64_t begin, std::int64_t count, const std::array<std::int64_t, 1>& offsets) {
      T* to = dx + begin;
      const T* from = dy + offsets[0];
      if (loop.repeats_in_row(0)) {
        std::fill(to, to + count, divide(*from));
        return;
      }
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) to[i] = divide(from[i]);
    });
  });
}

/// dx = share where x is the maximum; may lie over x.
template <class T>
void give_shares(T* dx, const T* x, const T* y, const float* share, std::int64_t count, bool repeats) {
  constexpr formulas::ShareOfChosen give;
  if (repeats) {
    const float maximum = *y, its_share = *share;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) dx[i] = stored<T>(give(x[i], maximum, its_share));
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) dx[i] = stored<T>(give(x[i], y[i], share[i]));
  }
}

template <class T>
std::unique_ptr<Kernel> make_reduce_max_grad_of(const KernelRequest& request) {
  const Shape& shape = request.inputs[1].shape;
  const std::vector<bool> reduced = reduced_axes_of(request, shape);
  const ReducePlan plan(shape, reduced);
  const BroadcastLoop<1> loop(shape, {kept_strides(shape, reduced)});
  const std::size_t partial_bytes = static_cast<std::size_t>(plan.num_partials()) * sizeof(double);
  const std::size_t share_bytes = static_cast<std::size_t>(plan.num_results()) * sizeof(float);
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const T* dy = static_cast<const T*>(arguments.inputs[0]);
        const T* x = static_cast<const T*>(arguments.inputs[1]);
        const T* y = static_cast<const T*>(arguments.inputs[2]);
        T* dx = static_cast<T*>(arguments.outputs[0]);
        double* partials = static_cast<double*>(arguments.workspace);
        float* shares = reinterpret_cast<float*>(static_cast<std::byte*>(arguments.workspace) + partial_bytes);
        plan.run(x, partials, formulas::ChosenReducer<T>{y},
                 [=](std::int64_t result, double count) { shares[result] = static_cast<float>(dy[result] / count); });
        loop.for_each_row([&](std::int64_t begin, std::int64_t count, const std::array<std::int64_t, 1>& offsets) {
          give_shares(dx + begin, x + begin, y + offsets[0], shares + offsets[0], count, loop.repeats_in_row(0));
        });
      },
      {.workspace_bytes = partial_bytes + share_bytes, .in_place = {{1, 0}}});
}

std::unique_ptr<Kernel> make_reduce_grad(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype,
                          [&](auto element) { return make_reduce_grad_of<decltype(element)>(request); });
}

std::unique_ptr<Kernel> make_reduce_max_grad(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype,
                          [&](auto element) { return make_reduce_max_grad_of<decltype(element)>(request); });
}

std::unique_ptr<Kernel> make_global_norm(const KernelRequest& request) {
  std::vector<ReducePlan> plans;
  std::int64_t num_partials = 0;
  for (const TensorType& x : request.inputs) {
    plans.emplace_back(x.shape, std::vector<bool>(static_cast<std::size_t>(x.shape.rank()), true));
    num_partials = std::max(num_partials, plans.back().num_partials());
  }
  return function_kernel(
      [plans](const KernelArguments& arguments) {
        double squares = 0;
        for (std::size_t i = 0; i < plans.size(); ++i) {
          plans[i].run(static_cast<const float*>(arguments.inputs[i]), static_cast<double*>(arguments.workspace),
                       formulas::SquareReducer(), [&](std::int64_t, double sum) { squares += sum; });
        }
        *static_cast<float*>(arguments.outputs[0]) = static_cast<float>(std::sqrt(squares));
      },
      {.workspace_bytes = static_cast<std::size_t>(num_partials) * sizeof(double)});
}

std::unique_ptr<Kernel> make_global_norm_grad(const KernelRequest&) {
  return function_kernel([](const KernelArguments& arguments) {
    *static_cast<float*>(arguments.outputs[0]) = formulas::GlobalNormGrad()(
        *static_cast<const float*>(arguments.inputs[0]), *static_cast<const float*>(arguments.inputs[1]));
  });
}

std::unique_ptr<Kernel> make_clip_scale(const KernelRequest& request) {
  const formulas::ClipScale scale{request.node.options<ClipScaleOptions>().max_norm};
  return function_kernel([scale](const KernelArguments& arguments) {
    *static_cast<float*>(arguments.outputs[0]) = scale(*static_cast<const float*>(arguments.inputs[0]));
  });
}

}  // namespace

void add_reduce_cpu_kernels(KernelRegistry& registry) {
  registry.add("reduce", make_reduce_of_stored, Bf16::native);
  registry.add("reduce_grad", make_reduce_grad, Bf16::native);
  registry.add("reduce_max_grad", make_reduce_max_grad, Bf16::native);
  registry.add("global_norm", make_global_norm);
  registry.add("global_norm_grad", make_global_norm_grad);
  registry.add("clip_scale", make_clip_scale);
}

}  // namespace sectionflow
