#include "graph/ops/parts.h"

#include <algorithm>

#include "base/checked_arithmetic.h"
#include "graph/nodes/parts.h"
#include "graph/nodes/window.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

TensorType sliced_type(const ShapeRequest& request, const TensorType& x) {
  const auto& [begin, size] = request.get<SliceOptions>();
  const auto rank = static_cast<std::size_t>(x.shape.rank());
  SF_CHECK(begin.size() == rank && size.size() == rank, ShapeError, request.label, " got ", begin.size(),
           " begins and ", size.size(), " sizes for ", x.text(), "; wanted one of each an axis");
  std::vector<std::int64_t> dims = x.shape.dims();
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t dim = dims[axis], first = begin[axis], count = size[axis];
    SF_CHECK(first >= 0 && count >= -1, ShapeError, request.label, ": axis ", axis, " has begin ", first, " and size ",
             count, "; wanted a begin >= 0 and a size >= 0, or -1 for all to the end");
    SF_CHECK(dim == kDynamic || first <= dim, ShapeError, request.label, ": axis ", axis, " of ", x.shape,
             " has nothing from ", first, " on");
    SF_CHECK(dim == kDynamic || count <= dim - first, ShapeError, request.label, ": axis ", axis, " of ", x.shape,
             " has no ", count, " elements from ", first, " on; try -1 for all to the end");
    if (count != -1) {
      dims[axis] = count;
    } else if (dim != kDynamic) {
      dims[axis] = dim - first;
    }
  }
  return {x.dtype, Shape(std::move(dims))};
}

TensorType padded_type(const ShapeRequest& request, const TensorType& x) {
  const auto& options = request.get<PadOptions>();
  const auto rank = static_cast<std::size_t>(x.shape.rank());
  SF_CHECK(options.before.size() == rank && options.after.size() == rank, ShapeError, request.label, " got ",
           options.before.size(), " sizes before and ", options.after.size(), " after for ", x.text(),
           "; wanted one of each an axis");
  std::vector<std::int64_t> dims = x.shape.dims();
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t before = options.before[axis], after = options.after[axis];
    SF_CHECK(before >= 0 && after >= 0, ShapeError, request.label, ": axis ", axis, " is padded by ", before, " and ",
             after, "; wanted >= 0; try slice to cut off elements");
    if (dims[axis] != kDynamic)
      dims[axis] = checked_add(dims[axis], checked_add(before, after, request.label), request.label);
  }
  return {x.dtype, Shape(std::move(dims))};
}

TensorType with_dim(const TensorType& type, int axis, std::int64_t dim) {
  std::vector<std::int64_t> dims = type.shape.dims();
  dims[axis] = dim;
  return {type.dtype, Shape(std::move(dims))};
}

/// What the types have in common: a dimension that one of them knows is known. `shown`: what messages show for them.
TensorType agreed_type(const ShapeRequest& request, std::span<const TensorType> types,
                       std::span<const TensorType> shown, const std::string& wanted) {
  std::vector<std::int64_t> dims = types[0].shape.dims();
  for (std::size_t k = 0; k < types.size(); ++k) {
    const TensorType& type = types[k];
    SF_CHECK(type.dtype == types[0].dtype, ArgumentError, request.label, " got ", shown[0].text(), " and ",
             shown[k].text(), "; wanted one dtype; try cast");
    if (!may_agree(type, {type.dtype, Shape(dims)})) {
      // A dimension that is known so far one of them has said.
      const auto other = std::find_if(types.begin(), types.end(), [&](const auto& t) { return !may_agree(t, type); });
      throw ShapeError(text_of(request.label, " got ", shown[static_cast<std::size_t>(other - types.begin())].text(),
                               " and ", shown[k].text(), wanted));
    }
    for (int i = 0; i < type.shape.rank(); ++i) dims[i] = dims[i] == kDynamic ? type.shape[i] : dims[i];
  }
  return {types[0].dtype, Shape(std::move(dims))};
}

TensorType stacked_type(const ShapeRequest& request, std::span<const TensorType> values, int axis) {
  const TensorType part = agreed_type(request, values, values, "; wanted equal shapes");
  std::vector<std::int64_t> dims = part.shape.dims();
  dims.insert(dims.begin() + normalized_axis(axis, part.shape.rank() + 1, request.label),
              static_cast<std::int64_t>(values.size()));
  return {part.dtype, Shape(std::move(dims))};
}

TensorType joined_type(const ShapeRequest& request, std::span<const TensorType> values, const ConcatOptions& options) {
  if (options.is_stack) return stacked_type(request, values, options.axis);
  const int rank = values[0].shape.rank();
  SF_CHECK(rank > 0, ShapeError, request.label, " got a scalar; wanted an axis to join along; try stack");
  const int axis = normalized_axis(options.axis, rank, request.label);
  std::int64_t total = 0;
  std::vector<TensorType> but_for_axis;
  for (const TensorType& value : values) {
    SF_CHECK(value.shape.rank() == rank, ShapeError, request.label, " got ", values[0].text(), " and ", value.text(),
             "; wanted one rank");
    const std::int64_t dim = value.shape[axis];
    total = total == kDynamic || dim == kDynamic ? kDynamic : checked_add(total, dim, request.label);
    but_for_axis.push_back(with_dim(value, axis, 0));
  }
  const std::string wanted = text_of("; wanted equal shapes but along axis ", axis);
  return with_dim(agreed_type(request, but_for_axis, values, wanted), axis, total);
}

std::vector<TensorType> infer_concat(const ShapeRequest& request) {
  return {joined_type(request, request.inputs, request.get<ConcatOptions>())};
}

std::vector<TensorType> infer_concat_grad(const ShapeRequest& request) {
  const auto& options = request.get<ConcatGradOptions>();
  const TensorType& dy = request.inputs[0];
  const auto values = request.inputs.subspan(1);
  SF_CHECK(options.wanted.size() == values.size(), ArgumentError, request.label, " got ", values.size(),
           " values, and whether a gradient is wanted for ", options.wanted.size());
  const TensorType y = joined_type(request, values, options.concat);
  SF_CHECK(may_agree(dy, y), ShapeError, request.label, " got dy ", dy.text(), "; wanted ", y.text());
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (options.wanted[i]) types.push_back(values[i]);
  }
  return types;
}

void check_parts(const ShapeRequest& request, const SplitNodeOptions& options) {
  constexpr int kMostParts = 1 << 16;
  SF_CHECK(options.parts >= 1 && options.parts <= kMostParts, ArgumentError, request.label, " got ", options.parts,
           " parts; wanted one at least, and at most ", kMostParts);
  const std::size_t num_sizes = options.sizes.size();
  SF_CHECK(num_sizes == 0 || num_sizes == static_cast<std::size_t>(options.parts), ArgumentError, request.label,
           " got ", num_sizes, " sizes for ", options.parts, " parts");
  for (std::int64_t size : options.sizes) {
    SF_CHECK(size >= 0, ArgumentError, request.label, " got the size ", size, "; wanted >= 0");
  }
}

std::vector<TensorType> part_types(const ShapeRequest& request, const TensorType& x, const SplitNodeOptions& options) {
  check_parts(request, options);
  const int axis = normalized_axis(options.axis, x.shape.rank(), request.label);
  const std::int64_t dim = x.shape[axis];
  if (options.sizes.empty()) {
    SF_CHECK(dim == kDynamic || dim % options.parts == 0, ShapeError, request.label, ": axis ", axis, " of ", x.shape,
             " is no multiple of ", options.parts, " parts; try split with the size of each");
    return std::vector(static_cast<std::size_t>(options.parts),
                       with_dim(x, axis, dim == kDynamic ? kDynamic : dim / options.parts));
  }
  std::int64_t total = 0;
  std::vector<TensorType> types;
  for (std::int64_t size : options.sizes) {
    total = checked_add(total, size, request.label);
    types.push_back(with_dim(x, axis, size));
  }
  SF_CHECK(dim == kDynamic || dim == total, ShapeError, request.label, ": axis ", axis, " of ", x.shape,
           " is not the sum of the sizes, ", total);
  return types;
}

std::vector<TensorType> infer_split(const ShapeRequest& request) {
  return part_types(request, request.inputs[0], request.get<SplitNodeOptions>());
}

std::vector<TensorType> infer_split_grad(const ShapeRequest& request) {
  const auto& options = request.get<SplitGradOptions>();
  const TensorType& x = request.inputs[0];
  const std::vector<TensorType> parts = part_types(request, x, options.split);
  const auto num_given = static_cast<std::size_t>(std::count(options.given.begin(), options.given.end(), true));
  SF_CHECK(options.given.size() == parts.size() && request.inputs.size() == 1 + num_given, ArgumentError, request.label,
           " got ", request.inputs.size() - 1, " gradients; wanted those of ", num_given, " of ", parts.size(),
           " parts");
  std::size_t input = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!options.given[i]) continue;
    const TensorType& dy = request.inputs[++input];
    SF_CHECK(may_agree(dy, parts[i]), ShapeError, request.label, " got ", dy.text(), " for part ", i, "; wanted ",
             parts[i].text());
  }
  return {x};
}

/// All outputs by rows, and the inputs from `first` up to `end`; of the others the shape alone is read.
RowParts by_rows(const ConcreteRequest& request, std::size_t first, std::size_t end) {
  RowParts parts{.inputs = std::vector(request.inputs.size(), PartUse::whole),
                 .outputs = std::vector(request.outputs.size(), PartUse::rows)};
  std::fill(parts.inputs.begin() + static_cast<std::ptrdiff_t>(first),
            parts.inputs.begin() + static_cast<std::ptrdiff_t>(end), PartUse::rows);
  return parts;
}

/// Of a box and what it is cut from or put in, where it has all rows.
std::optional<RowParts> box_parts(const ConcreteRequest& request) {
  const Shape &x = request.inputs[0].shape, &y = request.outputs[0].shape;
  if (x.rank() == 0 || x[0] != y[0]) return std::nullopt;
  return by_rows(request, 0, 1);
}

/// Whether what is joined along `axis`, to something of `rank` axes, lies side by side in each row.
bool joins_rows(int axis, int rank) {
  return rank > 0 && normalized_axis(axis, rank, "joined parts") != 0;
}

std::optional<RowParts> concat_parts(const ConcreteRequest& request) {
  if (!joins_rows(request.get<ConcatOptions>().axis, request.outputs[0].shape.rank())) return std::nullopt;
  return by_rows(request, 0, request.inputs.size());
}
std::optional<RowParts> concat_grad_parts(const ConcreteRequest& request) {
  const ConcatOptions& concat = request.get<ConcatGradOptions>().concat;
  if (!joins_rows(concat.axis, request.inputs[0].shape.rank())) return std::nullopt;
  return by_rows(request, 0, 1);
}
std::optional<RowParts> split_parts(const ConcreteRequest& request) {
  if (!joins_rows(request.get<SplitNodeOptions>().axis, request.inputs[0].shape.rank())) return std::nullopt;
  return by_rows(request, 0, 1);
}
std::optional<RowParts> split_grad_parts(const ConcreteRequest& request) {
  const SplitNodeOptions& split = request.get<SplitGradOptions>().split;
  if (!joins_rows(split.axis, request.outputs[0].shape.rank())) return std::nullopt;
  return by_rows(request, 1, request.inputs.size());
}

/// The outputs of a node, all of them.
std::vector<Value> outputs_of(Node& node) {
  std::vector<Value> outputs;
  for (std::size_t i = 0; i < node.output_types().size(); ++i) outputs.push_back(node.output(static_cast<int>(i)));
  return outputs;
}

Value join(const char* op, const std::vector<Value>& values, const ConcatOptions& options, Where where) {
  SF_CHECK(!values.empty(), ArgumentError, op, " got no values; wanted one at least");
  return values[0].graph().add_node(op, values, options, op, where).output();
}

void define_slice(OpRegistry& registry) {
  const OptionsDescription options = described_by<SliceOptions>([](auto& fields, auto& described) {
    fields("begin", described.begin);
    fields("size", described.size);
  });
  registry.add({.name = "slice",
                .options = options,
                .infer = [](const ShapeRequest& r) { return std::vector{sliced_type(r, r.inputs[0])}; },
                .parts = box_parts});
  OpDef gradient = gradient_by_shape("slice_grad", options, sliced_type);
  gradient.parts = box_parts;
  registry.add(std::move(gradient));
}

void define_pad(OpRegistry& registry) {
  const OptionsDescription options = described_by<PadOptions>([](auto& fields, auto& described) {
    fields("before", described.before);
    fields("after", described.after);
    fields("value", described.value);
  });
  registry.add({.name = "pad",
                .options = options,
                .infer = [](const ShapeRequest& r) { return std::vector{padded_type(r, r.inputs[0])}; },
                .parts = box_parts});
  OpDef gradient = gradient_by_shape("pad_grad", options, padded_type);
  gradient.parts = box_parts;
  registry.add(std::move(gradient));
}

void define_concat(OpRegistry& registry) {
  const auto describe_concat = [](auto& fields, auto& options) {
    fields("axis", options.axis);
    fields("is_stack", options.is_stack);
  };
  for (const char* name : {"concat", "stack"}) {
    registry.add({.name = name,
                  .inputs = {1, kAnyNumber},
                  .options = described_by<ConcatOptions>(describe_concat),
                  .infer = infer_concat,
                  .parts = concat_parts});
  }
  registry.add({.name = "concat_grad",
                .inputs = {2, kAnyNumber},
                .options = described_by<ConcatGradOptions>([=](auto& fields, auto& options) {
                  describe_concat(fields, options.concat);
                  fields("wanted", options.wanted);
                }),
                .infer = infer_concat_grad,
                .uses =
                    [](std::size_t num_inputs, HostBooleans) {
                      std::vector<InputUse> uses(num_inputs, InputUse::shape_only);
                      uses[0] = InputUse::data;
                      return uses;
                    },
                .parts = concat_grad_parts});
}

void define_split(OpRegistry& registry) {
  const auto describe_split = [](auto& fields, auto& options) {
    fields("axis", options.axis);
    fields("parts", options.parts);
    fields("sizes", options.sizes);
  };
  registry.add({.name = "split",
                .options = described_by<SplitNodeOptions>(describe_split),
                .infer = infer_split,
                .parts = split_parts});
  registry.add({.name = "split_grad",
                .inputs = {1, kAnyNumber},
                .options = described_by<SplitGradOptions>([=](auto& fields, auto& options) {
                  describe_split(fields, options.split);
                  fields("given", options.given);
                }),
                .infer = infer_split_grad,
                .uses =
                    [](std::size_t num_inputs, HostBooleans) {
                      std::vector<InputUse> uses(num_inputs, InputUse::data);
                      uses[0] = InputUse::shape_only;
                      return uses;
                    },
                .parts = split_grad_parts});
}

}  // namespace

void define_parts_ops(OpRegistry& registry) {
  define_slice(registry);
  define_pad(registry);
  define_concat(registry);
  define_split(registry);
}

Value slice(Value x, SliceOptions options, Where where) {
  return x.graph().add_node("slice", {x}, std::move(options), "slice", where).output();
}
Value slice_grad(Value dy, Value x, const SliceOptions& options) {
  return x.graph().add_node("slice_grad", {dy, x}, options, "slice_grad").output();
}

Value pad(Value x, PadOptions options, Where where) {
  return x.graph().add_node("pad", {x}, std::move(options), "pad", where).output();
}
Value pad_grad(Value dy, Value x, const PadOptions& options) {
  return x.graph().add_node("pad_grad", {dy, x}, options, "pad_grad").output();
}

Value concat(const std::vector<Value>& values, int axis, Where where) {
  return join("concat", values, {.axis = axis, .is_stack = false}, where);
}
Value stack(const std::vector<Value>& values, int axis, Where where) {
  return join("stack", values, {.axis = axis, .is_stack = true}, where);
}

std::vector<Value> split(Value x, int parts, int axis, Where where) {
  return x.graph().build_at(where, [&] {
    SF_CHECK(parts >= 1, ArgumentError, "split of '", x.name(), "' got ", parts, " parts; wanted one at least");
    return outputs_of(x.graph().add_node("split", {x}, SplitNodeOptions{.axis = axis, .parts = parts}, "split"));
  });
}
std::vector<Value> split(Value x, std::vector<std::int64_t> sizes, int axis, Where where) {
  return x.graph().build_at(where, [&] {
    SF_CHECK(!sizes.empty(), ArgumentError, "split of '", x.name(), "' got no sizes; wanted one at least");
    for (std::int64_t size : sizes) {
      SF_CHECK(size >= 0, ArgumentError, "split of '", x.name(), "' got the size ", size, "; wanted >= 0");
    }
    const int parts = static_cast<int>(sizes.size());
    SplitNodeOptions options{.axis = axis, .parts = parts, .sizes = std::move(sizes)};
    return outputs_of(x.graph().add_node("split", {x}, std::move(options), "split"));
  });
}

std::vector<Value> concat_grad(Value dy, const std::vector<Value>& values, const ConcatOptions& options,
                               std::vector<bool> wanted) {
  std::vector<Value> inputs = {dy};
  inputs.insert(inputs.end(), values.begin(), values.end());
  return outputs_of(
      dy.graph().add_node("concat_grad", inputs, ConcatGradOptions{options, std::move(wanted)}, "concat_grad"));
}

Value split_grad(Value x, const std::vector<Value>& part_gradients, const SplitNodeOptions& options) {
  std::vector<Value> inputs = {x};
  std::vector<bool> given;
  for (const Value& gradient : part_gradients) {
    given.push_back(gradient.valid());
    if (gradient.valid()) inputs.push_back(gradient);
  }
  return x.graph().add_node("split_grad", inputs, SplitGradOptions{options, std::move(given)}, "split_grad").output();
}

}  // namespace sectionflow
