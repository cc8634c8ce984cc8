#pragma once

#include <memory>

#include "graph/nodes/indexing.h"
#include "kernels/convert_element.h"
#include "kernels/formulas/indexing.h"
#include "kernels/formulas/scatter.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {

/// Gather, with NaN or zeros for rows that there are not, and its gradient: the types that a request asks for. How a
/// device computes is up to `Gathers`, whose static functions make a kernel each:
/// - `gather<T, Index>(request, missing)`, of elements that are moved as they are; `missing` for rows that there are
/// not;
/// - `combined<Combine, T, Index>(...)`, see make_combined_rows; nothing where bf16 is left to f32 between copies.
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
      return with_index_type(request.inputs[1].dtype, [&](auto index) {
        return Gathers::template gather<T, decltype(index)>(request, missing);
      });
    });
  }
  static std::unique_ptr<Kernel> gather_grad(const KernelRequest& request) {
    return make_combined_rows<formulas::AddRows, Gathers>(request, -1, 0);
  }
};

}  // namespace sectionflow
