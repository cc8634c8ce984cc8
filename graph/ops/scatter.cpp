#include "graph/ops/scatter.h"

#include <string>
#include <utility>
#include <vector>

#include "graph/nodes/scatter.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_scatter(const ShapeRequest& request) {
  const TensorType &x = request.inputs[0], &indices = request.inputs[1], &updates = request.inputs[2];
  // "scatter 'name'" is the operation; the user has called one of two.
  const bool adds = request.get<ScatterOptions>().scattering == Scattering::add;
  const std::string label = text_of(adds ? "scatter_add" : "scatter_max", request.label.substr(sizeof("scatter") - 1));
  check_f32_or_bf16(x, label);
  SF_CHECK(indices.dtype == Dtype::i32 || indices.dtype == Dtype::i64, ArgumentError, label, " got the indices ",
           indices.text(), "; wanted i32 or i64; try cast");
  SF_CHECK(x.shape.rank() >= 1, ShapeError, label, " got ", x.text(), "; wanted [V, ...]; try reshape");
  std::vector<std::int64_t> dims = indices.shape.dims();
  dims.insert(dims.end(), x.shape.dims().begin() + 1, x.shape.dims().end());
  const TensorType wanted{x.dtype, Shape(std::move(dims))};
  SF_CHECK(updates.dtype == x.dtype, ArgumentError, label, " got the updates ", updates.text(), " of ", x.text(),
           "; wanted them of one dtype; try cast");
  SF_CHECK(may_agree(updates, wanted), ShapeError, label, " got the updates ", updates.text(), " of ", x.text(), " by ",
           indices.text(), "; wanted ", wanted.text());
  return {x};
}

Value scatter(Value x, Value indices, Value updates, Scattering scattering, const char* name, Where where) {
  return x.graph().add_node("scatter", {x, indices, updates}, ScatterOptions{scattering}, name, where).output();
}

}  // namespace

void define_scatter_ops(OpRegistry& registry) {
  registry.add({.name = "scatter",
                .inputs = 3,
                .options = described_by<ScatterOptions>([](auto& fields, auto& options) {
                  fields.choice("scattering", options.scattering, {{Scattering::add, "add"}, {Scattering::max, "max"}});
                }),
                .infer = infer_scatter});
}

Value scatter_add(Value x, Value indices, Value updates, Where where) {
  return scatter(x, indices, updates, Scattering::add, "scatter_add", where);
}
Value scatter_max(Value x, Value indices, Value updates, Where where) {
  return scatter(x, indices, updates, Scattering::max, "scatter_max", where);
}

}  // namespace sectionflow
