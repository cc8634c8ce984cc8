#include "graph/ops/bias_add.h"

#include "graph/nodes/bias_add.h"
#include "graph/nodes/window.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// Whether `x` has an axis of channels.
bool has_channels(const Shape& x, DataFormat format) {
  return x.rank() >= (format == DataFormat::nhwc ? 1 : 2);
}

std::vector<TensorType> infer_bias_add(const ShapeRequest& r) {
  const TensorType& x = r.inputs[0];
  const TensorType& b = r.inputs[1];
  const DataFormat format = r.get<BiasAddOptions>().format;
  SF_CHECK(is_f32_or_bf16(x.dtype) && b.dtype == x.dtype, ArgumentError, r.label, " got ", x.text(), " and ", b.text(),
           "; wanted f32 twice or bf16 twice; try cast");
  const auto fits = [&](DataFormat in) {
    return has_channels(x.shape, in) && b.shape.rank() == 1 && x.shape[channel_axis(in)] == b.shape[0];
  };
  SF_CHECK(fits(format), ShapeError, r.label, " got x ", x.shape, " and b ", b.shape, "; wanted ",
           channels_text(format), " and [C]", format_hint(format, fits(other_format(format))));
  return {x};
}

std::vector<TensorType> infer_bias_add_grad(const ShapeRequest& r) {
  const TensorType& dy = r.inputs[0];
  const DataFormat format = r.get<BiasAddOptions>().format;
  check_f32_or_bf16(dy, r.label);
  SF_CHECK(has_channels(dy.shape, format), ShapeError, r.label, " got ",
           dy.shape.rank() == 0 ? "a scalar" : dy.shape.text(), "; wanted ", channels_text(format));
  return {{dy.dtype, {dy.shape[channel_axis(format)]}}};
}

/// A vector of channels has no rows beside them.
std::optional<RowParts> bias_add_parts(const ConcreteRequest& r) {
  if (r.inputs[0].shape.rank() < 2) return std::nullopt;
  return RowParts{.inputs = {PartUse::rows, PartUse::whole}, .outputs = {PartUse::rows}};
}

}  // namespace

void define_bias_add_ops(OpRegistry& registry) {
  const OptionsDescription options =
      described_by<BiasAddOptions>([](auto& fields, auto& described) { describe_format(fields, described.format); });
  registry.add({.name = "bias_add", .inputs = 2, .options = options, .infer = infer_bias_add, .parts = bias_add_parts});
  registry.add({.name = "bias_add_grad", .options = options, .infer = infer_bias_add_grad});
}

Value bias_add(Value x, Value b, BiasAddOptions options, Where where) {
  return x.graph().add_node("bias_add", {x, b}, options, "bias_add", where).output();
}
Value bias_add_grad(Value dy, BiasAddOptions options) {
  return dy.graph().add_node("bias_add_grad", {dy}, options, "bias_add_grad").output();
}

}  // namespace sectionflow
