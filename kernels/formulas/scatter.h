#pragma once

#include <memory>
#include <vector>

#include "base/host_device.h"
#include "graph/nodes/scatter.h"
#include "kernels/formulas/indexing.h"
#include "kernels/formulas/reduce.h"
#include "kernels/kernel.h"
#include "kernels/stored_element.h"

/// How rows that are named by the same index become one, on every device.
namespace sectionflow {
namespace formulas {

/// Their sum in f32.
struct AddRows {
  SF_HOST_DEVICE static float combine(float a, float b) { return a + b; }
};
/// The largest of each column; a NaN counts as largest.
using LargestOfRows = MaxReducer;

}  // namespace formulas

/// What rows are combined of. Where there is nothing to begin with, a table begins with zeros.
template <class T, class Index>
struct CombinedRows {
  const T* x;            // [V, C], or null
  const Index* indices;  // [N]
  const T* rows;         // [N, C]
};

/// The kernel that combines rows, input `rows`, by index, input 1, to a table, output 0, which begins with input `x`;
/// if that is below 0, with zeros. `Rows::combined<Combine, T, Index>(table, num_indices, from, in_place)` makes it,
/// where `from(arguments)` gives the CombinedRows.
template <class Combine, class Rows>
std::unique_ptr<Kernel> make_combined_rows(const KernelRequest& request, int x, int rows) {
  const GatherTable table(request.outputs[0].shape);
  const std::int64_t num_indices = request.inputs[1].shape.num_elements();
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    return with_index_type(request.inputs[1].dtype, [&](auto index) {
      using T = decltype(element);
      using Index = decltype(index);
      const auto from = [x, rows](const KernelArguments& arguments) -> CombinedRows<T, Index> {
        return {x < 0 ? nullptr : static_cast<const T*>(arguments.inputs[x]),
                static_cast<const Index*>(arguments.inputs[1]), static_cast<const T*>(arguments.inputs[rows])};
      };
      std::vector<InPlace> in_place;
      if (x >= 0) in_place.push_back({.input = x, .output = 0});
      return Rows::template combined<Combine, T, Index>(table, num_indices, from, std::move(in_place));
    });
  });
}

template <class Rows>
std::unique_ptr<Kernel> make_scatter(const KernelRequest& request) {
  return request.node.options<ScatterOptions>().scattering == Scattering::add
             ? make_combined_rows<formulas::AddRows, Rows>(request, 0, 2)
             : make_combined_rows<formulas::LargestOfRows, Rows>(request, 0, 2);
}

}  // namespace sectionflow
