#include "graph/node_parts.h"

#include <utility>
#include <vector>

namespace sectionflow {

TensorType type_of_part(const TensorType& type, std::int64_t parts) {
  std::vector<std::int64_t> dims = type.shape.dims();
  dims.at(0) /= parts;
  return {type.dtype, Shape(std::move(dims))};
}

}  // namespace sectionflow
