#include <vector>

#include "graph/ops/lstm_step.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/positions.h"
#include "kernels/formulas/lstm_step.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

/// A column a thread.
template <class Row>
struct EachColumn {
  Row first;
  gpu::Divisor width;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t column = width.cut(i);
    first.at(i)(column);
  }
};

/// `of(arguments, width)` is what is computed of a column of row 0. `like_cell`: an input [..., H].
template <class Of>
std::unique_ptr<Kernel> column_kernel(const Shape& like_cell, std::vector<InPlace> in_place, const Of& of) {
  const std::int64_t width = like_cell[-1], count = like_cell.num_elements();
  return function_kernel(
      [=](const KernelArguments& arguments) {
        if (count == 0) return;
        using Row = decltype(of(arguments, width));
        gpu::launch_each(arguments.queue, count, EachColumn<Row>{of(arguments, width), gpu::Divisor(width)});
      },
      {.in_place = std::move(in_place)});
}

template <class T>
struct OfStep {
  auto operator()(const KernelArguments& arguments, std::int64_t width) const {
    return formulas::lstm_step_of<T>(arguments, width);
  }
};
template <class T>
struct OfGrad {
  auto operator()(const KernelArguments& arguments, std::int64_t width) const {
    return formulas::lstm_step_grad_of<T>(arguments, width);
  }
};

std::unique_ptr<Kernel> make_step(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    return column_kernel(request.inputs[1].shape, {{0, 2}, {1, 1}}, OfStep<decltype(element)>());
  });
}
std::unique_ptr<Kernel> make_grad(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    return column_kernel(request.inputs[3].shape, {{2, 0}, {1, 1}}, OfGrad<decltype(element)>());
  });
}

}  // namespace

void add_lstm_step_cuda_kernels(KernelRegistry& registry) {
  registry.add("lstm_step", make_step, Bf16::native);
  registry.add("lstm_step_grad", make_grad, Bf16::native);
}

}  // namespace sectionflow
