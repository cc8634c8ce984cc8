#include "graph/mixed_precision.h"

#include "graph/check_dtype.h"

namespace sectionflow {

MixedPrecision::MixedPrecision(Graph& graph, Dtype dtype, Where where)
    : scope_(graph.build_at(where, [&] {
        SF_CHECK(is_f32_or_bf16(dtype), ArgumentError, "MixedPrecision in ", dtype_name(dtype),
                 "; wanted bf16, or f32 for a part in full precision");
        return graph.enter_layer_dtype(dtype);
      })) {}

}  // namespace sectionflow
