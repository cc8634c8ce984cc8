#pragma once

#include <cstdint>
#include <memory>

#include "base/shape.h"
#include "kernels/convert_element.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {

/// A table of gather, seen as [num_rows, row_length].
struct GatherTable {
  std::int64_t num_rows, row_length = 1;
  explicit GatherTable(const Shape& shape) : num_rows(shape[0]) {
    for (int i = 1; i < shape.rank(); ++i) row_length *= shape[i];
  }
};

/// The family's kernels from a room's Gather<T, Index>::make(request) and GatherGrad<Index>::make(request).
template <template <class, class> class Gather, template <class> class GatherGrad>
void add_gather_kernels(KernelRegistry& registry) {
  const auto gather = [](const KernelRequest& request) {
    return with_element_type(request.inputs[0].dtype, [&](auto element) {
      using T = decltype(element);
      return request.inputs[1].dtype == Dtype::i32 ? Gather<T, std::int32_t>::make(request)
                                                   : Gather<T, std::int64_t>::make(request);
    });
  };
  registry.add("gather", gather, Bf16::native);
  registry.add("gather_grad", [](const KernelRequest& request) {
    return request.inputs[1].dtype == Dtype::i32 ? GatherGrad<std::int32_t>::make(request)
                                                 : GatherGrad<std::int64_t>::make(request);
  });
}

}  // namespace sectionflow
