#include "bench/ops/bench_case.h"
#include "bench/ops/op_table.h"
#include "graph/ops/basic.h"
#include "graph/ops/eight_bit_update.h"
#include "graph/ops/scaled_update.h"
#include "graph/ops/update.h"

namespace sectionflow::bench {
namespace {

/// A variable, a gradient or an average of gradients.
Value any(CaseBuilder& b) {
  return b.constant_operand(b.shape(), Dtype::f32, -1, 1);
}
/// An average of squares, or their sum.
Value squares(CaseBuilder& b) {
  return b.constant_operand(b.shape(), Dtype::f32, 0.5, 1);
}
Value rate(CaseBuilder& b) {
  return b.constant_operand({}, Dtype::f32, 1e-3, 2e-3);
}
Value steps(CaseBuilder& b) {
  return variable("steps", constant(b.graph(), HostTensor::scalar(std::int64_t{7})), {.trainable = false});
}

void sgd(CaseBuilder& b) {
  b.effect(apply_sgd(any(b), any(b), rate(b)));
}
void momentum(CaseBuilder& b) {
  b.effect(apply_momentum(any(b), any(b), any(b), rate(b)));
}
void adam(CaseBuilder& b) {
  b.effect(apply_adam(any(b), any(b), squares(b), any(b), rate(b), steps(b)));
}
void adam_w(CaseBuilder& b) {
  b.effect(apply_adam_w(any(b), any(b), squares(b), any(b), rate(b), steps(b)));
}
void adagrad(CaseBuilder& b) {
  b.effect(apply_adagrad(any(b), squares(b), any(b), rate(b)));
}
void rms_prop(CaseBuilder& b) {
  b.effect(apply_rms_prop(any(b), squares(b), any(b), rate(b)));
}
void lion(CaseBuilder& b) {
  b.effect(apply_lion(any(b), any(b), any(b), rate(b)));
}
void lamb(CaseBuilder& b) {
  b.effect(apply_lamb(any(b), any(b), squares(b), any(b), rate(b), steps(b)));
}
void adafactor(CaseBuilder& b) {
  const auto average = [&](int without) {
    std::vector<std::int64_t> dims = b.shape().dims();
    dims.erase(dims.end() - without);
    return b.constant_operand(Shape(std::move(dims)), Dtype::f32, 0.5, 1);
  };
  b.effect(apply_adafactor(any(b), average(1), average(2), any(b), rate(b), steps(b)));
}
void adam_8bit(CaseBuilder& b) {
  const auto codes = [&] { return b.constant_operand(b.shape(), Dtype::u8, 0, 255); };
  const auto scales = [&] {
    return b.constant_operand({(b.shape().num_elements() + kSlotBlock - 1) / kSlotBlock}, Dtype::f32, 0.5, 1);
  };
  b.effect(apply_adam_8bit(any(b), codes(), scales(), codes(), scales(), any(b), rate(b), steps(b)));
}

}  // namespace

void add_update_ops(std::vector<BenchedOp>& ops) {
  const auto add = [&](const char* name, void (*build)(CaseBuilder&)) {
    ops.push_back({.name = name,
                   .axes = "[...]",
                   .shape = "8388608",
                   .build = build,
                   .has_gradient = false,
                   .takes_bf16 = false});
  };
  add("apply_sgd", sgd);
  add("apply_momentum", momentum);
  add("apply_adam", adam);
  add("apply_adam_w", adam_w);
  add("apply_adagrad", adagrad);
  add("apply_rms_prop", rms_prop);
  add("apply_lion", lion);
  add("apply_lamb", lamb);
  add("apply_adafactor", adafactor);
  ops.back().axes = "[..., R, C]";
  ops.back().shape = "4096x2048";
  add("apply_adam_8bit", adam_8bit);
}

}  // namespace sectionflow::bench
