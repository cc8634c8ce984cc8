#include "graph/nodes/scatter.h"
#include "kernels/cuda/combined_rows.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/formulas/scatter.h"
#include "kernels/stored_element.h"

namespace sectionflow {
namespace {

template <class Combine, class T, class Index>
std::unique_ptr<Kernel> make_scatter_by(const KernelRequest& request) {
  return gpu::combined_rows_kernel<Combine, T, Index>(
      GatherTable(request.outputs[0].shape), request.inputs[1].shape.num_elements(),
      [](const KernelArguments& arguments) -> gpu::CombinedRows<T, Index> {
        return {static_cast<const T*>(arguments.inputs[0]), static_cast<const Index*>(arguments.inputs[1]),
                static_cast<const T*>(arguments.inputs[2])};
      },
      {{.input = 0, .output = 0}});
}

template <class Combine>
std::unique_ptr<Kernel> make_scatter_of(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return request.inputs[1].dtype == Dtype::i32 ? make_scatter_by<Combine, T, std::int32_t>(request)
                                                 : make_scatter_by<Combine, T, std::int64_t>(request);
  });
}

std::unique_ptr<Kernel> make_scatter(const KernelRequest& request) {
  return request.node.options<ScatterOptions>().scattering == Scattering::add
             ? make_scatter_of<formulas::AddRows>(request)
             : make_scatter_of<formulas::LargestOfRows>(request);
}

}  // namespace

void add_scatter_cuda_kernels(KernelRegistry& registry) {
  registry.add("scatter", make_scatter, Bf16::native);
}

}  // namespace sectionflow
