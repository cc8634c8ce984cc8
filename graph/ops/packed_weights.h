#pragma once

#include <any>
#include <string>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "base/host_tensor.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Options of the op "with_packed_weights".
struct PackedWeightsOptions {
  std::string op{};      ///< the operation that is done
  std::any options{};    ///< its own
  std::int64_t input{};  ///< which of its inputs is packed
  /// Types of its inputs, all known, in the program whose kernel told the order. That of the packed one is its type as
  /// `op` takes it.
  std::vector<TensorType> types{};
  /// The order, as the kernel of `op` for these types tells it: what was packed otherwise is refused.
  std::string order{};
};

/// Whether weights of an operation may be packed: it computes its outputs of the elements of its inputs, and does
/// nothing else.
bool may_have_packed_weights(const OpDef& op);

/// An operation as it is, but for one input, which has its elements in the order in which the kernel reads them, so
/// that no run has to bring them into it (kernels/packed_weights.h makes both): [n], of the dtype that it has as `op`
/// takes it. The same bits. For inference: it has no gradient. Throws: ArgumentError, and what the shape rule of `op`
/// throws.
Value with_packed_weights(const std::vector<Value>& inputs, const PackedWeightsOptions& options,
                          std::string_view name = {}, Where where = Where::here());

}  // namespace sectionflow
