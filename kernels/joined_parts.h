#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/nodes/parts.h"
#include "graph/ops/parts.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {

/// A tensor seen as rows, cut at the joining axis: in each row its parts lie one behind the other.
struct JoinedParts {
  static constexpr int kNoTensor = -1;
  /// In each row of the joined tensor, `bytes` bytes from `offset` on.
  struct Part {
    std::int64_t offset, bytes;
    int tensor;  ///< its number among the inputs or outputs that hold parts, or kNoTensor
  };
  std::int64_t num_rows = 1, row_bytes = 0;
  std::vector<Part> parts{};

  /// `axis`: that of the parts' shapes from which on a part is one run of bytes. `is_there`: whether a tensor holds it.
  /// The rows are those of the joined tensor: types that nothing is read of may have others (KernelRequest::part).
  JoinedParts(const Shape& joined, const std::vector<TensorType>& types, int axis, const std::vector<bool>& is_there) {
    int tensor = 0;
    for (int i = 0; i < axis; ++i) num_rows *= joined[i];
    for (std::size_t i = 0; i < types.size(); ++i) {
      auto bytes = static_cast<std::int64_t>(dtype_bytes(types[i].dtype));
      for (int k = axis; k < types[i].shape.rank(); ++k) bytes *= types[i].shape[k];
      parts.push_back({row_bytes, bytes, is_there[i] ? tensor++ : kNoTensor});
      row_bytes += bytes;
    }
  }
};

namespace joined {

inline int axis_of(const KernelRequest& request, const ConcatOptions& options, const TensorType& part) {
  return normalized_axis(options.axis, part.shape.rank() + (options.is_stack ? 1 : 0), request.node.label());
}

// The parts of each op; none where the only part is the whole.

/// "concat", "stack": the parts are the inputs.
inline std::optional<JoinedParts> concat_parts(const KernelRequest& request) {
  if (request.inputs.size() == 1) return std::nullopt;
  const int axis = axis_of(request, request.node.options<ConcatOptions>(), request.inputs[0]);
  return JoinedParts(request.outputs[0].shape, request.inputs, axis, std::vector<bool>(request.inputs.size(), true));
}

/// "concat_grad": the wanted parts are the outputs.
inline std::optional<JoinedParts> concat_grad_parts(const KernelRequest& request) {
  if (request.inputs.size() == 2) return std::nullopt;
  const auto& options = request.node.options<ConcatGradOptions>();
  const std::vector<TensorType> values(request.inputs.begin() + 1, request.inputs.end());
  return JoinedParts(request.inputs[0].shape, values, axis_of(request, options.concat, values[0]), options.wanted);
}

/// "split": the parts are the outputs.
inline std::optional<JoinedParts> split_parts(const KernelRequest& request) {
  if (request.outputs.size() == 1) return std::nullopt;
  const TensorType& x = request.inputs[0];
  const int axis = normalized_axis(request.node.options<SplitNodeOptions>().axis, x.shape.rank(), request.node.label());
  return JoinedParts(x.shape, request.outputs, axis, std::vector<bool>(request.outputs.size(), true));
}

/// "split_grad": the given parts are the inputs from 1 on.
inline JoinedParts split_grad_parts(const KernelRequest& request) {
  const auto& options = request.node.options<SplitGradOptions>();
  const TensorType& x = request.inputs[0];
  const int axis = normalized_axis(options.split.axis, x.shape.rank(), request.node.label());
  std::vector<TensorType> parts;
  for (int i = 0; i < options.split.parts; ++i) {
    std::vector<std::int64_t> dims = x.shape.dims();
    dims[axis] = options.split.sizes.empty() ? dims[axis] / options.split.parts : options.split.sizes[i];
    parts.push_back({x.dtype, Shape(std::move(dims))});
  }
  return JoinedParts(request.outputs[0].shape, parts, axis, options.given);
}

}  // namespace joined
/// The family's kernels from a room's make_join(parts, first input), make_cut(parts), and copy_kernel(bytes) for where
/// the only part is the whole.
template <auto make_join, auto make_cut, auto copy_kernel>
void add_joined_kernels(KernelRegistry& registry) {
  const auto concat = [](const KernelRequest& request) {
    const auto parts = joined::concat_parts(request);
    return parts ? make_join(*parts, 0) : copy_kernel(request.outputs[0].bytes());
  };
  registry.add("concat", concat, Bf16::native);
  registry.add("stack", concat, Bf16::native);
  const auto concat_grad = [](const KernelRequest& request) {
    const auto parts = joined::concat_grad_parts(request);
    return parts ? make_cut(*parts) : copy_kernel(request.outputs[0].bytes());
  };
  registry.add("concat_grad", concat_grad, Bf16::native);
  const auto split = [](const KernelRequest& request) {
    const auto parts = joined::split_parts(request);
    return parts ? make_cut(*parts) : copy_kernel(request.outputs[0].bytes());
  };
  registry.add("split", split, Bf16::native);
  const auto split_grad = [](const KernelRequest& request) { return make_join(joined::split_grad_parts(request), 1); };
  registry.add("split_grad", split_grad, Bf16::native);
}

}  // namespace sectionflow
