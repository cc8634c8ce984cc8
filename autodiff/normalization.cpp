#include "autodiff/normalization.h"

#include "autodiff/compose.h"
#include "graph/parameter.h"

namespace sectionflow {

void check_no_loss_of_statistics(const GradientRequest& r) {
  for (std::size_t i = 1; i < r.output_gradients.size(); ++i) {
    SF_CHECK_CODE(
        !r.output_gradients[i].valid(), ArgumentError, ErrorCode::no_gradient_rule, r.node.label(),
        ": the loss depends on the statistics themselves, which have no gradient",
        hint("compute them with reduce_mean; a third derivative needs the norm composed of small operations"));
  }
}

std::vector<Value> gradients_of_norm_gradient(const GradientRequest& r, const NormTerms& t) {
  const Dtype dtype = r.input(1).dtype();
  Value of_dy, of_x, of_scale;
  if (r.output_gradients[0].valid()) {
    const Value g = in_dtype(r.output_gradients[0], Dtype::f32);
    const Value u = t.projected(g);
    const Value h = t.dy * t.scale;
    of_dy = u * t.scale;
    of_scale = t.sums(t.dy * u);
    const Value of_normal = neg(t.rstd * (g * t.means(h * t.normal) + h * t.means(g * t.normal)));
    const Value dx = in_dtype(r.node.output(0), Dtype::f32);
    of_x = t.through_statistics(t.projected(of_normal) - t.rstd * t.normal * t.means(g * dx));
  }
  if (r.output_gradients[1].valid()) {
    const Value g = t.along(r.output_gradients[1]);
    of_dy = plus(of_dy, t.normal * g);
    of_x = plus(of_x, t.projected(t.dy * g));
  }
  if (r.output_gradients.size() > 2 && r.output_gradients[2].valid()) {
    of_dy = plus(of_dy, broadcast_like(t.along(r.output_gradients[2]), t.x));
  }
  std::vector<Value> gradients(r.wanted.size());
  gradients[0] = in_dtype(t.kept(of_dy), dtype);
  if (of_x.valid()) gradients[1] = in_dtype(of_x, dtype);
  gradients[2] = of_scale;
  return gradients;
}

}  // namespace sectionflow
