// Convolutions, products, sums and pools compute with integers of 8 bits. What has none such stays f32: at the borders
// numbers become integers, and integers numbers.

#include "transform/quantize_nodes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "graph/nodes/pool.h"
#include "graph/nodes/quantize.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/ops/fused_convolution.h"
#include "graph/ops/quantized_convolution.h"
#include "transform/graph_copy.h"
#include "transform/quantize_plan.h"
#include "transform/transform.h"

namespace sectionflow {
namespace {

using Kind = QuantizedPart::Kind;

/// How integers stand for the numbers of a tensor.
struct IntegerForm {
  Dtype dtype = Dtype::i8;
  float scale = 1;
};

/// u8 from 0 on where nothing is below it; else i8, alike on both sides.
IntegerForm form_of(const ValueRange& range) {
  const bool is_unsigned = range.minimum >= 0;
  const float most = std::max(std::abs(range.minimum), std::abs(range.maximum));
  if (most == 0) return {is_unsigned ? Dtype::u8 : Dtype::i8, 1};
  return {is_unsigned ? Dtype::u8 : Dtype::i8, std::max(most / (is_unsigned ? 255.0F : 127.0F), kLeastScale)};
}

/// Such that the largest u8 is no more than `high`: what is above it becomes that.
ValueRange clipped(const ValueRange& range, float high) {
  return {0, range.maximum > 0 ? std::min(range.maximum, high) : high};
}

/// Cut to what f32 holds: ranges and weights are finite, what is made of them need not be.
float finite_float(double number) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(number, -kMost, kMost));
}

std::map<Value, IntegerForm> forms_of(const TransformedGraph& given, const QuantizePlan& plan) {
  std::map<Value, IntegerForm> forms;
  std::string missing;
  int num_missing = 0;
  constexpr int kMostNamed = 8;
  for (const Value& value : plan.ranged_values()) {
    const auto range = given.ranges.of(value);
    if (range) {
      const QuantizedPart* part = plan.part_of_last(value.node());
      const bool is_clipped = part != nullptr && part->clip != nullptr;
      forms.emplace(value, form_of(is_clipped ? clipped(*range, part->clip_high) : *range));
    } else if (++num_missing <= kMostNamed) {
      missing += text_of(missing.empty() ? "'" : ", '", value.name(), "'");
    }
  }
  if (num_missing > kMostNamed) missing += text_of(" and ", num_missing - kMostNamed, " more");
  SF_CHECK(num_missing == 0, ArgumentError, "quantize_nodes: the graph has no ranges of ", missing,
           hint("calibrate(graph, dataset) finds them on examples, after fold_constants, fold_batch_norms and fuse"));
  return forms;
}

/// Makes the graph of integers.
class NodeQuantizer {
 public:
  NodeQuantizer(const TransformedGraph& given, const QuantizePlan& plan)
      : given_(given), plan_(plan), forms_(forms_of(given, plan)) {}

  /// As GraphCopy::Rewrite.
  bool rewrite(const Node& node, GraphCopy& copy) {
    if (plan_.is_inside(node)) return true;
    const QuantizedPart* part = plan_.part_of_last(node);
    const Value result = node.output_types().empty() ? Value() : given_.graph.node(node.id()).output();
    const ValueNeeds needs = result.valid() ? plan_.needs_of(result) : ValueNeeds{};
    // Numbers of integers that quantize_weights has made, and that products read as integers again.
    if (is_op(node, "dequantize") && !needs.as_floats && !needs.as_integers) return true;
    if (part == nullptr) return false;
    const IntegerForm form = part->kind == Kind::pool || part->kind == Kind::view
                                 ? integers_of(part->integers[0], copy).form
                             : needs.as_integers ? forms_.at(result)
                                                 : IntegerForm{Dtype::f32, 1};
    const bool gives_both = form.dtype != Dtype::f32 && needs.as_floats;
    const std::string name = gives_both ? copy.free_name(node.name() + "/integers") : node.name();
    const Value made = make(*part, form, name, copy);
    if (form.dtype == Dtype::f32) {
      copy.map(result, made);
      return true;
    }
    integers_.insert_or_assign(result, Integers{made, form});
    if (gives_both) {
      const Value scale = scalar(node, form.scale, node.name() + "/scale", copy);
      copy.map(result, copy.add(node, "dequantize", {made, scale}, QuantizeOptions{}, node.name()).output());
    }
    return true;
  }

 private:
  struct Integers {
    Value value;  ///< of the copy
    IntegerForm form;
  };

  Value scalar(const Node& node, float number, const std::string& name, GraphCopy& copy) {
    return copy.add_constant(node, std::make_shared<const HostTensor>(HostTensor::scalar(number)),
                             copy.free_name(name));
  }

  /// The integers of a value; made of its numbers where nobody has yet.
  Integers integers_of(const Value& value, GraphCopy& copy) {
    const auto found = integers_.find(value);
    if (found != integers_.end()) return found->second;
    const IntegerForm form = forms_.at(value);
    const Node& node = value.node();
    const Value scale = scalar(node, form.scale, node.name() + "/scale", copy);
    const Value made = copy.add(node, "quantize", {copy.mapped(value), scale}, QuantizeOptions{.dtype = form.dtype},
                                copy.free_name(node.name() + "/quantized"))
                           .output();
    return integers_.emplace(value, Integers{made, form}).first->second;
  }

  Value make(const QuantizedPart& part, const IntegerForm& form, const std::string& name, GraphCopy& copy) {
    const Node& node = *part.first;
    if (part.kind == Kind::product) return make_product(part, form, name, copy);
    std::vector<Value> inputs;
    std::vector<IntegerForm> of_inputs;
    for (const Value& value : part.integers) {
      const Integers integers = integers_of(value, copy);
      inputs.push_back(integers.value);
      of_inputs.push_back(integers.form);
    }
    if (part.kind == Kind::view) {
      return copy.add(*part.last, node.op().name, std::move(inputs), node.any_options(), name).output();
    }
    if (part.kind == Kind::pool) {
      return copy.add(*part.last, "quantized_" + node.op().name, std::move(inputs), node.any_options(), name).output();
    }
    const auto factor = [&](std::size_t i) {
      return finite_float(static_cast<double>(of_inputs[i].scale) / static_cast<double>(form.scale));
    };
    const QuantizedAddOptions options{
        .a_factor = factor(0), .b_factor = factor(1), .result = {.dtype = form.dtype, .relu = part.has_relu}};
    return copy.add(*part.last, "quantized_add", std::move(inputs), options, name).output();
  }

  Value make_product(const QuantizedPart& part, const IntegerForm& form, const std::string& name, GraphCopy& copy) {
    const Node &node = *part.first, &last = *part.last;
    const Integers x = integers_of(part.integers[0], copy);
    const auto scales = part.weights->scales->values<float>();
    const auto channels = static_cast<std::int64_t>(scales.size());
    HostTensor factors(Dtype::f32, {channels}), summands(Dtype::f32, {channels});
    const auto of_result = static_cast<double>(form.scale);
    for (std::size_t c = 0; c < scales.size(); ++c) {
      factors.values<float>()[c] =
          finite_float(static_cast<double>(x.form.scale) * static_cast<double>(scales[c]) / of_result);
      if (part.summands != nullptr) {
        summands.values<float>()[c] = finite_float(static_cast<double>(part.summands->values<float>()[c]) / of_result);
      }
    }
    const auto constant = [&](std::shared_ptr<const HostTensor> content, const char* what) {
      return copy.add_constant(last, std::move(content), copy.free_name(last.name() + what));
    };
    std::vector<Value> inputs = {x.value, constant(part.weights->integers, "/weights"),
                                 constant(std::make_shared<const HostTensor>(std::move(factors)), "/factors"),
                                 constant(std::make_shared<const HostTensor>(std::move(summands)), "/bias")};
    QuantizedProductOptions options{.result = {.dtype = form.dtype, .relu = part.has_relu}};
    if (part.residual.valid()) {
      // As the plan has it, whoever else reads integers of it, and when.
      double scale = 1;
      if (plan_.part_of_last(part.residual.node()) != nullptr) {
        const Integers residual = integers_of(part.residual, copy);
        inputs.push_back(residual.value);
        scale = static_cast<double>(residual.form.scale);
      } else {
        inputs.push_back(copy.mapped(part.residual));
      }
      options.residual_factor = finite_float(scale / of_result);
    }
    if (is_op(node, "matmul")) return copy.add(last, "quantized_matmul", std::move(inputs), options, name).output();
    const bool is_fused = is_op(node, "fused_conv2d") || is_op(node, "fused_conv3d");
    const ConvolutionOptions& convolution =
        is_fused ? node.options<FusedConvolutionOptions>().convolution : node.options<ConvolutionOptions>();
    const std::string op = text_of("quantized_conv", convolution.steps.stride.size(), "d");
    return copy.add(last, op, std::move(inputs), QuantizedConvolutionOptions{convolution, options}, name).output();
  }

  const TransformedGraph& given_;
  const QuantizePlan& plan_;
  std::map<Value, IntegerForm> forms_;
  std::map<Value, Integers> integers_;
};

}  // namespace

Transform quantize_nodes_transform() {
  return {.apply = [](const TransformedGraph& given, const TransformArguments&) {
    const QuantizePlan plan(given);
    NodeQuantizer quantizer(given, plan);
    GraphCopy copy(given);
    copy.copy_all([&](const Node& node, GraphCopy& made) { return quantizer.rewrite(node, made); });
    return copy.finish(given.outputs);
  }};
}

int QuantizeReport::num_quantized() const {
  return static_cast<int>(
      std::count_if(nodes.begin(), nodes.end(), [](const QuantizedNode& node) { return node.is_quantized; }));
}

std::string QuantizeReport::text() const {
  std::string text;
  for (const QuantizedNode& node : nodes) {
    if (!node.is_quantized) text += text_of(node.op, " '", node.name, "' stays f32: ", node.why, "\n");
  }
  return text + text_of(num_quantized(), " of ", nodes.size(), " operations compute with 8 bits\n");
}

QuantizeReport quantize_report(const InferenceGraph& graph, Where where) {
  return call_at(where, [&] {
    SF_CHECK(graph.graph != nullptr, ArgumentError, "quantize_report: the graph is none; wanted what freeze gives");
    check_outputs(*graph.graph, graph.outputs, "quantize_report");
    check_is_for_inference(*graph.graph, nullptr, "quantize_report");
    return QuantizePlan({*graph.graph, graph.outputs, graph.ranges}).report();
  });
}

}  // namespace sectionflow
