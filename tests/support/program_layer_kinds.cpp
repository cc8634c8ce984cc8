#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/support/layer_kinds.h"

namespace sectionflow::testing {
namespace {

std::vector<std::int64_t> dims_for_any_batch(Value x) {
  std::vector<std::int64_t> dims = x.shape().dims();
  dims.front() = -1;
  return dims;
}

/// A variable that is changed once a step, and here read by nobody but who looks at it.
void look_at_total(ModelBuilder& model, const LayerSpec& layer, Value x) {
  const Value total = model.state(layer, "seen", {}, 0.2F);
  model.graph.add_to_collection(kUpdateOperations, assign_add(total, mean(x) * 0.1F));
  model.views.push_back(total * 3.0F);
}

/// The tensor under another name, here where it is read first: only to be looked at, or also for the layer to read.
Value view(ModelBuilder& model, const LayerSpec& layer, Value x) {
  if (layer.option % 3 == 2) {
    look_at_total(model, layer, x);
    return silu(x);
  }
  const Value flat = reshape(x, {-1});
  model.views.push_back(flat);
  if (layer.option % 3 == 0) return silu(x);
  return reshape(tanh(reshape(flat, Shape(dims_for_any_batch(x)))), Shape(dims_for_any_batch(x)));
}

/// One kernel, used many times.
Value recur(ModelBuilder& model, const LayerSpec& layer, Value x) {
  const std::int64_t channels = x.shape()[-1];
  const Value kernel = model.parameter(layer, "recurrent", {channels, channels}, 0, 0.5F);
  Value rows = x.shape().rank() == 2 ? x : reshape(x, {-1, channels});
  for (int use = 0; use < 2 + 3 * (layer.option % 3); ++use) rows = tanh(matmul(rows, kernel)) + rows * 0.5F;
  return x.shape().rank() == 2 ? rows : reshape(rows, Shape(dims_for_any_batch(x)));
}

/// Computes in bf16, with variables in f32; so is what it gives.
Value halve(ModelBuilder& model, const LayerSpec& layer, Value x) {
  const MixedPrecision precision(model.graph);
  const bool image = x.shape().rank() == 4;
  switch (layer.option % 3) {
    case 0:
      return relu(dense(x, {.features = layer.size}));
    case 1:
      return image ? conv2d(x, {.features = layer.size}) : tanh(dense(x, {.features = layer.size, .bias = false}));
    default:
      return image ? batch_norm(x, model.is_training, {.decay = 0.8F, .relu = true}) : layer_norm(x);
  }
}

}  // namespace

const std::vector<LayerKind>& program_layer_kinds() {
  static const std::vector<LayerKind> kinds = [] {
    std::vector<LayerKind> all;
    all.push_back({.name = "view", .weight = 3, .options = 3, .build = view});
    all.push_back({.name = "recur", .weight = 2, .shares = true, .options = 3, .build = recur});
    all.push_back({.name = "half", .weight = 2, .sized = true, .options = 3, .build = halve});
    return all;
  }();
  return kinds;
}

Value in_f32(Value x) {
  return x.dtype() == Dtype::f32 ? x : cast(x, Dtype::f32);
}

}  // namespace sectionflow::testing
