#include "graph/ops/clip.h"

#include "graph/elementwise.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_clip(const ShapeRequest& request) {
  const auto& options = request.get<ClipOptions>();
  SF_CHECK(options.low <= options.high, ArgumentError, request.label, " got low ", options.low, " and high ",
           options.high, "; wanted low <= high");
  return infer_like_float(request);
}

}  // namespace

void define_clip_ops(OpRegistry& registry) {
  const OptionsDescription options = described_by<ClipOptions>([](auto& fields, auto& described) {
    fields("low", described.low);
    fields("high", described.high);
  });
  registry.add({.name = "clip", .options = options, .infer = infer_clip});
  registry.add({.name = "clip_grad", .inputs = 2, .options = options, .infer = infer_gradient_of_one});
}

Value clip(Value x, float low, float high, Where where) {
  return x.graph().add_node("clip", {x}, ClipOptions{low, high}, "clip", where).output();
}
Value clip_grad(Value dy, Value x, ClipOptions options) {
  return x.graph().add_node("clip_grad", {dy, x}, options, "clip_grad").output();
}

}  // namespace sectionflow
