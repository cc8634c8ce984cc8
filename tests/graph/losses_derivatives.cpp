// First and second derivatives of losses beside differences in double.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "graph/losses.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "tests/support/gradient_check.h"

namespace sectionflow::loss_case {
namespace {

using namespace testing_support;

Shape rows_shape(SubjectBuilder& b) {
  return b.shape(2);
}
DrawnRange probabilities() {
  return {.low = 0.1, .high = 0.9};
}

/// Losses of two sources.
template <Value (*kLoss)(Value, Value)>
void of_pairs(SubjectBuilder& b) {
  const Shape shape = b.shape(static_cast<int>(b.number(0, 3)));
  const Value x = b.source(shape);
  b.result(kLoss(x, b.source(b.broadcast_part(shape))));
}
void binary_cross_entropy_subject(SubjectBuilder& b) {
  const Shape shape = rows_shape(b);
  const Value x = b.source(shape), t = b.source(shape, probabilities());
  b.result(binary_cross_entropy_with_logits(x, t, {.positive_weights = b.source({shape[1]}), .label_smoothing = 0.1F}));
}
void focal_subject(SubjectBuilder& b) {
  const Shape shape = rows_shape(b);
  const Value x = b.source(shape);
  b.result(focal_loss(x, b.source(shape, probabilities()), {.gamma = b.coin() ? 2.0F : 0.5F}));
}
void kl_divergence_subject(SubjectBuilder& b) {
  const Shape shape = rows_shape(b);
  const bool is_log = b.coin();
  const Value log_q = log_softmax(b.source(shape));
  const Value targets = is_log ? b.source(shape) : b.source(shape, probabilities());
  b.result(kl_divergence(log_q, targets, {.log_targets = is_log}));
}
void cosine_subject(SubjectBuilder& b) {
  const Shape shape = b.shape(3);
  const DrawnRange range{.away_from_zero = 0.3};
  const Value x = b.source(shape, range);
  b.result(cosine_similarity(x, b.source({shape[1], shape[2]}, range), {.axis = -1}));
}
void triplet_subject(SubjectBuilder& b) {
  const Shape shape = rows_shape(b);
  const Value a = b.source(shape), p = b.source(shape, {.low = 2, .high = 3});
  b.result(triplet_margin_loss(a, p, b.source(shape, {.low = -3, .high = -2}), {.margin = 9}));
}
void cross_entropy_subject(SubjectBuilder& b) {
  const std::int64_t classes = b.number(1, 4);
  const Value logits = b.source({b.number(1, 4), b.number(1, 3), classes});
  const Value labels = b.whole_numbers({logits.shape()[0], logits.shape()[1]}, 0, classes - 1);
  const Value weights = b.data({classes}, {.low = 0.5, .high = 2});
  b.result(cross_entropy(logits, labels, {.ignore_index = 1, .label_smoothing = 0.2F, .class_weights = weights}));
}
void weighted_mean_subject(SubjectBuilder& b) {
  const Shape shape = rows_shape(b);
  const Value losses = b.source(shape);
  b.result(
      weighted_mean(losses, b.source(b.broadcast_part(shape), {.low = 0.5, .high = 2}), {.is_weighted = b.coin()}));
}
void dice_subject(SubjectBuilder& b) {
  const Shape shape = rows_shape(b);
  b.result(dice_loss(b.source(shape, probabilities()), b.source(shape, probabilities()), {.axes = {1}}));
}

const GradientSubject kLossSubjects[] = {
    {"binary_cross_entropy", binary_cross_entropy_subject},
    {"focal", focal_subject},
    {"hinge", of_pairs<[](Value x, Value t) { return hinge_loss(x, t); }>},
    {"absolute_error", of_pairs<[](Value x, Value t) { return absolute_error(x, t); }>},
    {"squared_error", of_pairs<[](Value x, Value t) { return squared_error(x, t); }>},
    {"huber", of_pairs<[](Value x, Value t) { return huber_loss(x, t); }>},
    {"log_cosh", of_pairs<[](Value x, Value t) { return log_cosh_loss(x, t); }>},
    {"kl_divergence", kl_divergence_subject},
    {"cosine_similarity", cosine_subject},
    {"triplet_margin", triplet_subject},
    {"cross_entropy", cross_entropy_subject},
    {"weighted_mean", weighted_mean_subject},
    {"dice", dice_subject},
};

class DerivativesOfLosses : public testing::TestWithParam<GradientSubject> {};
TEST_P(DerivativesOfLosses, EqualDifferencesInDouble) {
  int checked = 0;
  for (std::uint64_t seed = 1; seed <= 24 && checked < 6; ++seed) {
    const GradientFinding finding = check_gradients(gradient_registry(), GetParam(), seed);
    if (finding.error.empty() && !finding.is_smooth) continue;
    ++checked;
    EXPECT_TRUE(finding.is_right()) << "seed " << seed << ": " << finding.text();
  }
  EXPECT_EQ(checked, 6) << "too many kinks";
}
INSTANTIATE_TEST_SUITE_P(Subjects, DerivativesOfLosses, testing::ValuesIn(kLossSubjects),
                         [](const testing::TestParamInfo<GradientSubject>& info) { return info.param.name; });

}  // namespace
}  // namespace sectionflow::loss_case
