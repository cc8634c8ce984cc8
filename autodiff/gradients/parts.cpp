#include "graph/ops/parts.h"

#include <utility>

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "graph/nodes/parts.h"

namespace sectionflow {
namespace {

std::vector<Value> concat_gradient(const GradientRequest& r) {
  const std::vector<Value> wanted_gradients =
      concat_grad(r.dy(), r.node.inputs(), r.node.options<ConcatOptions>(), r.wanted);
  std::vector<Value> gradients(r.wanted.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < r.wanted.size(); ++i) {
    if (r.wanted[i]) gradients[i] = wanted_gradients[next++];
  }
  return gradients;
}

// Parts of dy: joined again, with zeros for the parts that are not there or that the loss does not depend on.
std::vector<Value> concat_grad_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<ConcatGradOptions>();
  std::vector<Value> parts;
  std::size_t output = 0;
  for (std::size_t i = 0; i < options.wanted.size(); ++i) {
    const Value g = options.wanted[i] ? r.output_gradients[output++] : Value();
    parts.push_back(g.valid() ? g : full_like(r.node.inputs()[i + 1], 0));
  }
  std::vector<Value> gradients(r.wanted.size());
  gradients[0] = options.concat.is_stack ? stack(parts, options.concat.axis) : concat(parts, options.concat.axis);
  return gradients;
}

std::vector<Value> split_grad_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<SplitGradOptions>();
  const std::vector<Value> parts = options.split.sizes.empty() ? split(r.dy(), options.split.parts, options.split.axis)
                                                               : split(r.dy(), options.split.sizes, options.split.axis);
  std::vector<Value> gradients = {Value()};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (options.given[i]) gradients.push_back(parts[i]);
  }
  return gradients;
}

}  // namespace

void add_parts_gradients(GradientRegistry& registry) {
  registry.add("slice", [](const GradientRequest& r) {
    return std::vector{slice_grad(r.dy(), r.input(0), r.node.options<SliceOptions>())};
  });
  registry.add("slice_grad", [](const GradientRequest& r) {
    return std::vector{slice(r.dy(), r.node.options<SliceOptions>()), Value()};
  });
  registry.add("pad", [](const GradientRequest& r) {
    return std::vector{pad_grad(r.dy(), r.input(0), r.node.options<PadOptions>())};
  });
  registry.add("pad_grad", [](const GradientRequest& r) {
    PadOptions options = r.node.options<PadOptions>();
    options.value = 0;
    return std::vector{pad(r.dy(), std::move(options)), Value()};
  });
  registry.add("concat", concat_gradient);
  registry.add("stack", concat_gradient);
  registry.add("concat_grad", concat_grad_gradient);
  registry.add("split_grad", split_grad_gradient);
  registry.add("split", [](const GradientRequest& r) {
    return std::vector{split_grad(r.input(0), r.output_gradients, r.node.options<SplitNodeOptions>())};
  });
}

}  // namespace sectionflow
