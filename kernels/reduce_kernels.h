#pragma once

#include <memory>
#include <vector>

#include "graph/ops/reduce.h"
#include "kernels/kernel.h"

namespace sectionflow {

/// Which axes of `x` the request's node reduces.
inline std::vector<bool> reduced_axes_of(const KernelRequest& request, const Shape& x) {
  return reduced_axes(request.node.options<ReduceNodeOptions>().reduce, x.rank(), request.node.label());
}

/// "reduce" from a room's plan, its kernel of sums that are divided, make_sum(plan, divisor), and that of maxima,
/// make_max(plan).
template <class Plan, auto make_sum, auto make_max>
std::unique_ptr<Kernel> make_reduce(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  const Plan plan(x, reduced_axes_of(request, x));
  switch (request.node.options<ReduceNodeOptions>().reduction) {
    case Reduction::sum:
      return make_sum(plan, 1);
    case Reduction::mean:
      return make_sum(plan, static_cast<double>(plan.num_reduced()));
    case Reduction::max:
      return make_max(plan);
  }
  return nullptr;
}

}  // namespace sectionflow
