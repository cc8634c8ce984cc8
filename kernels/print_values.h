#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/host_tensor.h"

namespace sectionflow {

/// What print says of a tensor, once its first values are at hand: "loss f32[3] = 1, 2, ...".
struct PrintedValues {
  std::string label{};
  TensorType type{};
  int first = 0;  ///< how many values are shown at most

  std::int64_t num_shown() const;
  /// Logs them; `values`: the first num_shown() elements.
  void log(const void* values) const;
};

}  // namespace sectionflow
