#include "graph/ops/fake_quantize.h"

#include "autodiff/gradient_registry.h"
#include "graph/nodes/arithmetic.h"
#include "graph/nodes/fake_quantize.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

std::vector<Value> fake_quantize_gradient(const GradientRequest& r) {
  const Value x = r.input(0), minimum = r.input(1), maximum = r.input(2);
  std::vector<Value> gradients(3);
  if (r.wanted[0]) gradients[0] = fake_quantize_grad(r.dy(), x, minimum, maximum);
  if (!r.wanted[1] && !r.wanted[2]) return gradients;
  const Value of_larger = reduce_to_like(fake_quantize_range_grad(r.dy(), x, minimum, maximum), maximum);
  const Value is_lower = less(maximum, neg(minimum));
  if (r.wanted[1]) gradients[1] = select(is_lower, neg(of_larger), 0.0F);
  if (r.wanted[2]) gradients[2] = select(is_lower, 0.0F, of_larger);
  return gradients;
}

}  // namespace

void add_fake_quantize_gradients(GradientRegistry& registry) {
  registry.add("fake_quantize", fake_quantize_gradient);
  for (const char* op : {"fake_quantize_grad", "fake_quantize_range_grad"}) {
    registry.add_refused(op, "a gradient that goes straight through a step is no derivative, and has none of its own",
                         "take second derivatives of the network without fake_quantize");
  }
}

}  // namespace sectionflow
