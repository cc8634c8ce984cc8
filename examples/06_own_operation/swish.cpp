#include "swish.h"

#include "sectionflow_ops.h"
#include "swish_formulas.h"

#if defined(ACME_HAS_CUDA)
#include "swish_cuda.h"
#endif

namespace acme {
namespace {

using namespace sectionflow;

Value swish_grad(Value dy, Value x, SwishOptions options) {
  return x.graph().add_node("acme.swish_grad", {dy, x}, options, "swish_grad").output();
}

std::vector<TensorType> infer_swish(const ShapeRequest& request) {
  const float slope = request.get<SwishOptions>().slope;
  SF_CHECK(slope > 0, ArgumentError, request.label, " got the slope ", slope, "; wanted one above 0");
  return infer_like_float(request);
}

void define_ops(OpRegistry& registry) {
  const OptionsDescription options =
      described_by<SwishOptions>([](auto& fields, auto& of_swish) { fields("slope", of_swish.slope); });
  registry.add({.name = "acme.swish", .options = options, .infer = infer_swish});
  registry.add({.name = "acme.swish_grad", .inputs = 2, .options = options, .infer = infer_gradient_of_one});
}

void add_gradients(GradientRegistry& registry) {
  registry.add("acme.swish", [](const GradientRequest& r) {
    return std::vector{swish_grad(r.dy(), r.input(0), r.node.options<SwishOptions>())};
  });
}

template <class Formula>
std::unique_ptr<Kernel> make(const KernelRequest& request) {
  return map_elements(request, Formula{request.node.options<SwishOptions>().slope});
}

void add_cpu_kernels(KernelRegistry& registry) {
  registry.add("acme.swish", make<Swish>);
  registry.add("acme.swish_grad", make<SwishGrad>);
}

}  // namespace

Value swish(Value x, SwishOptions options, Where where) {
  return x.graph().add_node("acme.swish", {x}, options, "swish", where).output();
}

void register_swish() {
  OpFamily family = {.define = define_ops, .add_gradients = add_gradients, .add_cpu_kernels = add_cpu_kernels};
#if defined(ACME_HAS_CUDA)
  family.add_cuda_kernels = add_swish_cuda_kernels;
#endif
  register_family(family);
}

}  // namespace acme
