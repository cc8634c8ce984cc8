#include "autodiff/custom_gradient.h"
#include "graph/nodes/arithmetic.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/control.h"
#include "graph/ops/dropout.h"
#include "graph/ops/identities.h"
#include "graph/ops/indexing.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "tests/support/gradient_subjects.h"

namespace sectionflow::testing_support {
namespace {

constexpr DrawnRange kPositive{.low = 0.5, .high = 2.5};
constexpr DrawnRange kAwayFromZero{.away_from_zero = 0.2};

Value any_source(SubjectBuilder& b, DrawnRange range = {}) {
  return b.source(b.shape(static_cast<int>(b.number(0, 3))), range);
}

/// y = op(x).
template <Value (*kOp)(Value, Where)>
void of_any(SubjectBuilder& b) {
  b.result(kOp(any_source(b), {}));
}
template <Value (*kOp)(Value, Where)>
void of_positive(SubjectBuilder& b) {
  b.result(kOp(any_source(b, kPositive), {}));
}
void relu_subject(SubjectBuilder& b) {
  b.result(relu(any_source(b, kAwayFromZero)));
}
void abs_subject(SubjectBuilder& b) {
  b.result(abs(any_source(b, kAwayFromZero)));
}
/// Within (-3, 3), where it bends.
void hard_swish_subject(SubjectBuilder& b) {
  b.result(hard_swish(any_source(b, {.low = -2.5, .high = 2.5})));
}
void leaky_relu_subject(SubjectBuilder& b) {
  b.result(leaky_relu(any_source(b, kAwayFromZero), {.negative_slope = b.coin() ? 0.3F : 0.0F}));
}
void elu_subject(SubjectBuilder& b) {
  b.result(elu(any_source(b, kAwayFromZero), {.alpha = b.coin() ? 1.5F : 0.5F}));
}
void gelu_subject(SubjectBuilder& b) {
  b.result(gelu(any_source(b), {b.coin() ? Gelu::exact : Gelu::tanh}));
}

/// y = op(a, b), where either may be broadcast.
template <Value (*kOp)(Value, Value, Where)>
void of_two(SubjectBuilder& b, DrawnRange first, DrawnRange second) {
  const Shape whole = b.shape(static_cast<int>(b.number(0, 3)));
  const Shape part = b.broadcast_part(whole);
  const bool part_first = b.coin();
  const Value x = b.source(part_first ? part : whole, first);
  b.result(kOp(x, b.source(part_first ? whole : part, second), {}));
}
template <Value (*kOp)(Value, Value, Where)>
void of_any_two(SubjectBuilder& b) {
  of_two<kOp>(b, {}, {});
}
void div_subject(SubjectBuilder& b) {
  of_two<div>(b, {}, {.low = -2.5, .high = 2.5, .away_from_zero = 0.7});
}
void pow_subject(SubjectBuilder& b) {
  of_two<pow>(b, kPositive, {.low = -2, .high = 3});
}
void pow_of_a_number_subject(SubjectBuilder& b) {
  const Value x = any_source(b, kAwayFromZero);
  b.result(pow(x, static_cast<float>(b.number(0, 4))));
}
/// Of a and of an intermediate value, read by several.
void shared_operand_subject(SubjectBuilder& b) {
  const Value x = any_source(b);
  const Value y = x * x;
  b.result(y + y * x);
}

void add_n_subject(SubjectBuilder& b) {
  const Shape shape = b.shape(2);
  std::vector<Value> terms = {b.source(shape)};
  for (std::int64_t i = b.number(0, 3); i > 0; --i) terms.push_back(b.source(shape));
  b.result(add_n(terms));
}

void select_subject(SubjectBuilder& b) {
  const Shape shape = b.shape(3);
  const Value condition = greater(b.data(b.broadcast_part(shape)), b.data({}, {.low = -0.5, .high = 0.5}));
  const Value first = b.source(b.coin() ? shape : b.broadcast_part(shape));
  b.result(select(condition, first, b.source(shape)));
}

void clip_subject(SubjectBuilder& b) {
  b.result(clip(any_source(b), -0.7F, 0.6F));
}

void dropout_subject(SubjectBuilder& b) {
  const Value x = any_source(b);
  b.result(dropout(x, b.flag(b.number(0, 3) > 0), {.rate = 0.4F}));
}

void cast_subject(SubjectBuilder& b) {
  b.result(cast(cast(any_source(b), Dtype::f64), Dtype::f32));
}

/// The reference does not round; its tolerance allows for a few roundings to bf16.
void bf16_subject(SubjectBuilder& b) {
  b.epsilon = 0x1p-9;
  const Value x = cast(b.source(b.shape(2), kAwayFromZero), Dtype::bf16);
  const Value y = b.coin() ? tanh(x) * x : (b.coin() ? silu(x) + x : gelu(square(x)));
  b.result(cast(y, Dtype::f32));
}

/// A sum in f32 to which a bf16 part is added: one rounding to bf16 of the part and one of its gradient.
void accumulate_subject(SubjectBuilder& b) {
  b.epsilon = 0x1p-12;
  const Shape shape = b.shape(2);
  const Value sum = b.source(shape);
  b.result(accumulate(sum, cast(b.source(shape), Dtype::bf16), Dtype::f32));
}

void print_subject(SubjectBuilder& b) {
  b.result(print(b.source({2}), {.label = "a check prints", .first = 2}));
}

/// The rule of a product, told by hand.
void custom_gradient_subject(SubjectBuilder& b) {
  const Shape shape = b.shape(2);
  const Value x = b.source(shape, kAwayFromZero), y = b.source(shape, kAwayFromZero);
  b.result(custom_gradient(
      {x, y}, [](const std::vector<Value>& in) { return in[0] * in[1]; },
      [](const BackwardRequest& r) {
        return std::vector{r.dy * r.inputs[1], r.dy * r.inputs[0]};
      }));
}

/// One branch within the other, by known flags: x is read in both of a choice, y in one alone, z as it is.
void cond_subject(SubjectBuilder& b) {
  const Shape shape = b.shape(2);
  const Value x = b.source(shape, kAwayFromZero), y = b.source(shape, kAwayFromZero),
              z = b.source(shape, kAwayFromZero);
  const Value outer = constant(b.graph, HostTensor::scalar(b.coin())),
              inner = constant(b.graph, HostTensor::scalar(b.coin()));
  b.result(cond(
      outer,
      [&] {
        return x * cond(
                       inner, [&] { return x * y; }, [&] { return square(z); });
      },
      [&] {
        return cond(
            inner, [&] { return z; }, [&] { return square(x) * y; });
      }));
}

void assertion_subject(SubjectBuilder& b) {
  const Value x = b.source({3});
  b.result(assert_that(x, equal(x, x), {.shown = {x}}));
}

void global_norm_subject(SubjectBuilder& b) {
  std::vector<Value> xs = {b.source(b.shape(2), kAwayFromZero)};
  if (b.coin()) xs.push_back(b.source(b.shape(1), kAwayFromZero));
  const Value norm = global_norm(xs);
  b.result(norm);
  if (b.coin()) b.result(xs[0] * clip_scale(norm, b.coin() ? 0.3F : 100.0F));
}

/// What has no derivative stands beside what has one: signs, and choices by booleans of all kinds.
void steps_subject(SubjectBuilder& b) {
  const Value x = b.source(b.shape(2), kAwayFromZero);
  const Value is_small = x < b.data({}, {.low = 0.01, .high = 0.02});
  const Value chosen = logical_xor(logical_or(is_small, is_finite(x)), logical_and(logical_not(is_small), x > -1.0F));
  b.result(select(chosen, x * x, x * 3.0F) + x * sign(x));
}

/// What has no derivative stands beside what has one.
void zero_gradient_subject(SubjectBuilder& b) {
  const Value x = b.source(b.shape(2), {.low = -1.5, .high = 1.5, .distinct = true});
  const Value steps = cast(greater(x, b.data({}, {.low = 0.01, .high = 0.02})), Dtype::f32);
  const Value index = cast(argmax(x), Dtype::f32);
  const Value kept = stop_gradient(square(x) * 1.5F);
  b.result(x * steps + x * kept);
  b.result(index * b.source({}));
}

}  // namespace

void add_elementwise_subjects(std::vector<GradientSubject>& subjects) {
  const GradientSubject all[] = {{"neg", of_any<neg>},
                                 {"square", of_any<square>},
                                 {"sqrt", of_positive<sqrt>},
                                 {"rsqrt", of_positive<rsqrt>},
                                 {"exp", of_any<exp>},
                                 {"log", of_positive<log>},
                                 {"relu", relu_subject},
                                 {"tanh", of_any<tanh>},
                                 {"sigmoid", of_any<sigmoid>},
                                 {"silu", of_any<silu>},
                                 {"expm1", of_any<expm1>},
                                 {"log1p", of_positive<log1p>},
                                 {"abs", abs_subject},
                                 {"sin", of_any<sin>},
                                 {"cos", of_any<cos>},
                                 {"erf", of_any<erf>},
                                 {"softplus", of_any<softplus>},
                                 {"mish", of_any<mish>},
                                 {"hard_swish", hard_swish_subject},
                                 {"leaky_relu", leaky_relu_subject},
                                 {"elu", elu_subject},
                                 {"gelu", gelu_subject},
                                 {"add", of_any_two<add>},
                                 {"sub", of_any_two<sub>},
                                 {"mul", of_any_two<mul>},
                                 {"div", div_subject},
                                 {"maximum", of_any_two<maximum>},
                                 {"minimum", of_any_two<minimum>},
                                 {"pow", pow_subject},
                                 {"pow_of_a_number", pow_of_a_number_subject},
                                 {"shared_operand", shared_operand_subject},
                                 {"add_n", add_n_subject},
                                 {"select", select_subject},
                                 {"clip", clip_subject},
                                 {"dropout", dropout_subject},
                                 {"cast", cast_subject},
                                 {"bf16", bf16_subject},
                                 {"accumulate", accumulate_subject},
                                 {"print", print_subject},
                                 {"custom_gradient", custom_gradient_subject},
                                 {"cond", cond_subject},
                                 {"assert_that", assertion_subject},
                                 {"global_norm", global_norm_subject},
                                 {"steps", steps_subject},
                                 {"zero_gradient", zero_gradient_subject}};
  subjects.insert(subjects.end(), std::begin(all), std::end(all));
}

}  // namespace sectionflow::testing_support
