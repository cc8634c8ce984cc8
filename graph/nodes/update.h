#pragma once

#include <any>
#include <cstddef>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "graph/ops/update.h"

namespace SF_API sectionflow {

/// When an update happens.
struct UpdateConditions {
  /// A boolean [] that is known on the host: where it is false the update is no part of the program. Invalid: always.
  Value condition{};
  /// A boolean [] that the run computes: where it is false the update is executed and leaves all variables as they are.
  /// Invalid: always.
  Value gate{};
};

/// An update of op "assign_add", "average_weights" or "apply_...": what the function of that name makes, under
/// conditions, which become its last inputs.
Operation conditional_update(std::string_view op, std::vector<Value> inputs, std::any options,
                             const UpdateConditions& conditions);

/// gradient where micro_batch is 0, accumulator + gradient elsewhere.
/// Shapes: accumulator a variable, gradient and result alike, f32; micro_batch [] i64.
Value accumulated(Value accumulator, Value gradient, Value micro_batch);

}  // namespace sectionflow
