#include "bench/ops/bench_case.h"
#include "bench/ops/op_table.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/indexing.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"

namespace sectionflow::bench {
namespace {

template <Value (*kOp)(Value, Value, Where)>
void of_two(CaseBuilder& b) {
  const Value x = b.operand(b.shape());
  b.result(kOp(x, b.operand(b.shape()), Where::here()));
}

template <Value (*kOp)(Value, Where)>
void of_one(CaseBuilder& b) {
  b.result(kOp(b.operand(b.shape()), Where::here()));
}

void gelu_case(CaseBuilder& b) {
  b.result(gelu(b.operand(b.shape())));
}

void leaky_relu_case(CaseBuilder& b) {
  b.result(leaky_relu(b.operand(b.shape())));
}

void elu_case(CaseBuilder& b) {
  b.result(elu(b.operand(b.shape())));
}

void clip_case(CaseBuilder& b) {
  b.result(clip(b.operand(b.shape()), -0.5F, 0.5F));
}

void dropout_case(CaseBuilder& b) {
  b.result(dropout(b.operand(b.shape()), b.yes()));
}

/// From the dtype of the case to the other one.
void cast_case(CaseBuilder& b) {
  const Value x = b.operand(b.shape());
  b.result(cast(x, x.dtype() == Dtype::f32 ? Dtype::bf16 : Dtype::f32));
}

template <Value (*kOp)(Value, ReduceOptions, Where)>
void reduction(CaseBuilder& b) {
  b.result(kOp(b.operand(b.shape()), {.axes = {b.settings().axis("axis")}}, Where::here()));
}

void global_norm_case(CaseBuilder& b) {
  b.result(global_norm({b.operand(b.shape())}));
}

}  // namespace

void add_elementwise_ops(std::vector<BenchedOp>& ops) {
  const auto add = [&](const char* name, void (*build)(CaseBuilder&)) {
    ops.push_back({.name = name, .axes = "[...]", .shape = "64x56x56x64", .build = build});
  };
  add("add", of_two<sectionflow::add>);
  add("mul", of_two<mul>);
  add("div", of_two<div>);
  add("maximum", of_two<maximum>);
  add("relu", of_one<relu>);
  add("gelu", gelu_case);
  add("silu", of_one<silu>);
  add("sigmoid", of_one<sigmoid>);
  add("tanh", of_one<tanh>);
  add("exp", of_one<exp>);
  add("square", of_one<square>);
  add("expm1", of_one<expm1>);
  add("log1p", of_one<log1p>);
  add("abs", of_one<abs>);
  add("sin", of_one<sin>);
  add("cos", of_one<cos>);
  add("erf", of_one<erf>);
  add("softplus", of_one<softplus>);
  add("mish", of_one<mish>);
  add("hard_swish", of_one<hard_swish>);
  add("leaky_relu", leaky_relu_case);
  add("elu", elu_case);
  add("clip", clip_case);
  add("dropout", dropout_case);
  add("cast", cast_case);

  const auto add_reduction = [&](const char* name, void (*build)(CaseBuilder&)) {
    ops.push_back(
        {.name = name, .axes = "[..., A]", .shape = "64x56x56x64", .settings = {{"axis", "-1"}}, .build = build});
  };
  add_reduction("reduce_sum", reduction<reduce_sum>);
  add_reduction("reduce_mean", reduction<reduce_mean>);
  add_reduction("reduce_max", reduction<reduce_max>);
  add_reduction("reduce_min", reduction<reduce_min>);
  add("global_norm", global_norm_case);
  ops.back().takes_bf16 = false;
  ops.push_back({.name = "argmax",
                 .axes = "[..., C]",
                 .shape = "16384x768",
                 .build = of_one<argmax>,
                 .has_gradient = false,
                 .takes_bf16 = false});
}

}  // namespace sectionflow::bench
