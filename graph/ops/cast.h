#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// x in another dtype, as C++ converts; floats towards zero, NaN and values out of range to 0; to boolean: x != 0.
/// Floats to bf16 go to the nearest, f64 by way of f32.
/// Shapes: any; result like x. The gradient of casts between f32, f64 and bf16 passes, that of others is none.
Value cast(Value x, Dtype dtype, Where where = Where::here());

/// Options of the op "cast".
struct CastOptions {
  Dtype dtype = Dtype::f32;
};

}  // namespace sectionflow
