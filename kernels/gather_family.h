#pragma once

#include <cstdint>
#include <memory>

#include "base/shape.h"
#include "graph/nodes/indexing.h"
#include "kernels/convert_element.h"
#include "kernels/formulas/indexing.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {

/// A table of gather, seen as [num_rows, row_length].
struct GatherTable {
  std::int64_t num_rows, row_length = 1;
  explicit GatherTable(const Shape& shape) : num_rows(shape[0]) {
    for (int i = 1; i < shape.rank(); ++i) row_length *= shape[i];
  }
};

/// Gather, with NaN or zeros for rows that there are not, and its gradient: the types that a request asks for. How a
/// device computes is up to `Gathers`, whose static functions make a kernel each:
/// - `gather<T, Index>(request, missing)`, of elements that are moved as they are; `missing` for rows that there are
/// not;
/// - `gather_grad<Index>(request)`, for bf16 too; nothing where it is left to f32 between copies.
template <class Gathers>
class GatherFamily {
 public:
  static void add_to(KernelRegistry& registry) {
    registry.add("gather", gather<Missing::nan>, Bf16::native);
    registry.add("gather_present", gather<Missing::zero>, Bf16::native);
    registry.add("gather_grad", gather_grad, Bf16::native);
  }

 private:
  enum class Missing { nan, zero };
  template <Missing kMissing>
  static std::unique_ptr<Kernel> gather(const KernelRequest& request) {
    return with_element_type(request.inputs[0].dtype, [&](auto element) {
      using T = decltype(element);
      const T missing = kMissing == Missing::nan ? formulas::missing_element<T>() : T{};
      return request.inputs[1].dtype == Dtype::i32 ? Gathers::template gather<T, std::int32_t>(request, missing)
                                                   : Gathers::template gather<T, std::int64_t>(request, missing);
    });
  }
  static std::unique_ptr<Kernel> gather_grad(const KernelRequest& request) {
    return request.inputs[1].dtype == Dtype::i32 ? Gathers::template gather_grad<std::int32_t>(request)
                                                 : Gathers::template gather_grad<std::int64_t>(request);
  }
};

}  // namespace sectionflow
