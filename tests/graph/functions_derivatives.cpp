// First and second derivatives of functions beside differences in double, and beside those of PyTorch 2.15.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "graph/ops/arithmetic.h"
#include "tests/graph/functions_case.h"
#include "tests/support/gradient_check.h"

namespace sectionflow::function_case {
namespace {

using namespace testing_support;

ReduceOptions random_axes(SubjectBuilder& b) {
  ReduceOptions options{.axes = {}, .keep_dims = b.coin()};
  for (const int axis : {0, 1, 2}) {
    if (b.coin()) options.axes.push_back(axis);
  }
  return options;
}
void logsumexp_subject(SubjectBuilder& b) {
  b.result(logsumexp(b.source(b.shape(3)), random_axes(b)));
}
void prod_subject(SubjectBuilder& b) {
  b.result(reduce_prod(b.source(b.shape(3, 3)), random_axes(b)));
}
void prod_of_many_subject(SubjectBuilder& b) {
  b.result(reduce_prod(b.source({2, b.number(5, 17)}, {.low = 0.5, .high = 1.5}), {.axes = {1}}));
}
void prod_with_zeros_subject(SubjectBuilder& b) {
  const Value x = b.source({3, 4});
  const Value mask = constant(b.graph, HostTensor::of<float>({3, 4}, {1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1}));
  b.result(reduce_prod(x * mask, {.axes = {1}}));
}
void moments_subject(SubjectBuilder& b) {
  const Moments both = moments(b.source(b.shape(3)), random_axes(b));
  b.result(both.mean);
  b.result(both.variance);
}
void tile_subject(SubjectBuilder& b) {
  b.result(tile(b.source(b.shape(3, 3)), {b.number(1, 2), b.number(1, 3), b.number(1, 2)}));
}
void repeat_subject(SubjectBuilder& b) {
  b.result(repeat(b.source(b.shape(3, 3)), b.number(1, 3), static_cast<int>(b.number(-3, 2))));
}
void flip_subject(SubjectBuilder& b) {
  b.result(flip(b.source(b.shape(3, 3)), b.coin() ? std::vector{1} : std::vector{2, 0}));
}
void dims_subject(SubjectBuilder& b) {
  const Value x = b.source(b.shape(2));
  const int axis = static_cast<int>(b.number(-3, 2));
  b.result(squeeze(expand_dims(x, axis), {axis}));
}

const GradientSubject kFunctionSubjects[] = {
    {"logsumexp", logsumexp_subject}, {"prod", prod_subject}, {"prod_of_many", prod_of_many_subject},
    {"moments", moments_subject},     {"tile", tile_subject}, {"repeat", repeat_subject},
    {"flip", flip_subject},           {"dims", dims_subject}, {"prod_with_zeros", prod_with_zeros_subject},
};

class DerivativesOfFunctions : public testing::TestWithParam<GradientSubject> {};
TEST_P(DerivativesOfFunctions, EqualDifferencesInDouble) {
  int checked = 0;
  for (std::uint64_t seed = 1; seed <= 24 && checked < 8; ++seed) {
    const GradientFinding finding = check_gradients(gradient_registry(), GetParam(), seed);
    if (finding.error.empty() && !finding.is_smooth) continue;
    ++checked;
    EXPECT_TRUE(finding.is_right()) << "seed " << seed << ": " << finding.text();
  }
  EXPECT_EQ(checked, 8) << "too many kinks";
}
INSTANTIATE_TEST_SUITE_P(Subjects, DerivativesOfFunctions, testing::ValuesIn(kFunctionSubjects),
                         [](const testing::TestParamInfo<GradientSubject>& info) { return info.param.name; });

/// Near in epsilons of f32, and 1e-30 besides: below that, f32 has fewer digits or none.
void expect_near(const Doubles& found, const Doubles& wanted, double epsilons) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(found[i], wanted[i], epsilons * kF32Epsilon * std::abs(wanted[i]) + 1e-30) << "element " << i;
  }
}

TEST(LogsumexpBesideTorch, HasItsValuesAndGradients) {
  struct Wanted {
    std::vector<int> axes;
    Doubles values, gradient;
  };
  const Wanted table[] = {
      {{-1},
       {3.4082124017544175, 10000.474076984181, -9999.68673831248, 1.5112943611198906, 89.31335190324462},
       {0.08997599182352126,
        0.24458010357145746,
        0.664837651140924,
        0.0006062534640970338,
        0.6224593312012919,
        0.0,
        0.3775406687978042,
        0.0,
        0.7310585786293519,
        0.2689414213697549,
        0.0,
        0.0,
        0.25,
        0.25,
        0.25,
        0.25,
        9.021165708731958e-05,
        2.9386343843338506e-74,
        0.2689171597187148,
        0.7309926286242012}},
      {{0}, {10000.0, 2.1426750576056017, 9999.5, 89.0}, {0.0, 0.8670357598021705,
                                                          0.0, 4.0795586671775603e-41,
                                                          1.0, 0.0,
                                                          1.0, 2.2273635617957438e-39,
                                                          0.0, 0.0,
                                                          0.0, 0.0,
                                                          0.0, 0.13296424019782924,
                                                          0.0, 2.5239335744662634e-39,
                                                          0.0, 2.1178221865402028e-36,
                                                          0.0, 1.0}},
      {{0, 1},
       {10000.474076984181},
       {0.0, 0.0, 0.0, 0.0, 0.6224593312012919, 0.0, 0.3775406687978042, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
        0.0, 0.0, 0.0, 0.0}}};
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const std::vector<float> x = {1,    2,     3,      -4,     1e4F,   -1e4F,  9999.5F, 0,   -1e4F, -10001,
                                -1e5, kNone, 0.125F, 0.125F, 0.125F, 0.125F, 80,      -80, 88,    89};
  for (const Wanted& wanted : table) {
    const Found found = found_of([&](Value v) { return logsumexp(v, {.axes = wanted.axes}); }, {5, 4}, x);
    expect_near(found.values, wanted.values, 2);
    expect_near(found.gradient, wanted.gradient, 8);
  }
}

TEST(ReduceProdBesideTorch, HasItsFirstAndSecondDerivatives) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({3, 4}, {2, 0, -3, 0.5F, 0, 0, 1.5F, 2, 1, 2, 3, 4}));
  Doubles direction;
  for (int i = 0; i < 12; ++i) direction.push_back((i * 5 % 17 - 8) / 8.0);
  const Value r = constant(graph, op_cases::tensor_of({Dtype::f32, {3, 4}}, direction));
  const Value y = reduce_prod(x, {.axes = {1}});
  const Value first = gradients(reduce_sum(y), {x})[0];
  const Value second = gradients(reduce_sum(first * r), {x})[0];
  const std::vector<HostTensor> found = run_kernels({y, first, second}, {});
  EXPECT_EQ(doubles_of(found[0]), (Doubles{0, 0, 24}));
  EXPECT_EQ(doubles_of(found[1]), (Doubles{0, -3, 0, 0, 0, 0, 0, 0, 24, 12, 8, 6}));
  EXPECT_EQ(doubles_of(found[2]), (Doubles{0.5625, -3.5, -0.375, 2.25, 0, -1.875, 0, 0, 9.5, -0.5, -1.5, 1.625}));
}

}  // namespace
}  // namespace sectionflow::function_case
