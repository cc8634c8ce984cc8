#include "kernels/reduce_axes.h"

#include "graph/nodes/reduce.h"

namespace sectionflow {
namespace {

/// A run of neighbouring dimensions of one kind.
struct Run {
  std::int64_t dim = 1;
  bool is_reduced = false;
};

std::vector<Run> runs_of(const Shape& x, const std::vector<bool>& reduced) {
  std::vector<Run> runs;
  for (int i = 0; i < x.rank(); ++i) {
    if (x[i] == 1) continue;
    if (!runs.empty() && runs.back().is_reduced == reduced[i]) {
      runs.back().dim *= x[i];
    } else {
      runs.push_back({x[i], reduced[i]});
    }
  }
  if (runs.empty()) runs.push_back({});
  return runs;
}

}  // namespace

ReduceAxes::ReduceAxes(const Shape& x, const std::vector<bool>& reduced_axes) {
  const std::vector<Run> runs = runs_of(x, reduced_axes);
  row_is_reduced = runs.back().is_reduced;
  row_length = runs.back().dim;
  std::int64_t stride = row_length;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const Run& run = runs[runs.size() - 1 - i];
    Index& index = run.is_reduced ? reduced : kept;
    index.dims[index.rank] = run.dim;
    index.strides[index.rank] = stride;
    ++index.rank;
    index.count *= run.dim;
    stride *= run.dim;
  }
}

}  // namespace sectionflow
