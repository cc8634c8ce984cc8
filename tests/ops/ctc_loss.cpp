#include "graph/ops/ctc_loss.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "autodiff/gradients.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "op_case/case_values.h"
#include "tests/graph/description.h"
#include "tests/support/contains.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tolerance.h"

namespace sectionflow::testing_support {
namespace {

/// -ln of the probability of `labels`, by the probabilities of the states after each step, of [steps, classes].
double plain_ctc_loss(const double* logits, std::size_t steps, std::size_t classes, const std::vector<int>& labels,
                      int blank) {
  std::vector<int> states = {blank};
  for (const int label : labels) states.insert(states.end(), {label, blank});
  Doubles reached(states.size());
  double log_p = 0;
  for (std::size_t t = 0; t < steps; ++t) {
    const double* x = logits + t * classes;
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(x[c]);
    Doubles next(states.size());
    for (std::size_t s = 0; s < states.size(); ++s) {
      double from = t == 0 ? (s < 2 ? 1 : 0) : reached[s];
      if (t > 0 && s >= 1) from += reached[s - 1];
      if (t > 0 && s >= 2 && states[s] != blank && states[s] != states[s - 2]) from += reached[s - 2];
      next[s] = from * std::exp(x[states[s]]) / sum;
    }
    double scale = 0;
    for (const double value : next) scale += value;
    for (double& value : next) value /= scale;
    log_p += std::log(scale);
    reached = next;
  }
  return -(log_p + std::log(reached.back() + (states.size() > 1 ? reached[states.size() - 2] : 0)));
}

struct CtcShape {
  std::int64_t examples, steps, classes, labels;
};

/// Lengths of which every example has ways.
OpCase ctc_case(const std::string& name, const CtcShape& shape, std::int64_t blank, Dtype dtype, double range = 2) {
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  CaseInput labels{.type = {dtype, {shape.examples, shape.labels}}};
  for (std::int64_t i = 0; i < shape.examples * shape.labels; ++i) {
    const std::int64_t other = (i * i + i / 3) % (shape.classes - 1);  // some neighbours are equal
    labels.values.push_back(static_cast<double>(other < blank ? other : other + 1));
  }
  const std::int64_t least = std::min(shape.steps, 2 * shape.labels + 1);
  return {.name = name,
          .inputs = {input({shape.examples, shape.steps, shape.classes}, -range, range),
                     std::move(labels),
                     {.type = {dtype, {shape.examples}},
                      .low = static_cast<double>(least),
                      .high = static_cast<double>(shape.steps)},
                     {.type = {Dtype::i32, {shape.examples}}, .low = 0, .high = static_cast<double>(shape.labels)}},
          .build =
              [=](Graph&, const std::vector<Value>& in) {
                return std::vector{ctc_loss(in[0], in[1], in[2], in[3], {.blank = blank})};
              },
          .reference =
              [=](const std::vector<Doubles>& in) {
                Doubles losses;
                for (std::size_t n = 0; n < size(shape.examples); ++n) {
                  const auto first = in[1].begin() + static_cast<std::ptrdiff_t>(n * size(shape.labels));
                  const std::vector<int> own(first, first + static_cast<std::ptrdiff_t>(in[3][n]));
                  losses.push_back(plain_ctc_loss(in[0].data() + n * size(shape.steps * shape.classes),
                                                  static_cast<std::size_t>(in[2][n]), size(shape.classes), own,
                                                  static_cast<int>(blank)));
                }
                return std::vector<Doubles>{losses};
              },
          .tolerance = {.relative = 8, .absolute = 32},
          .gradient_tolerance = {.relative = 64, .absolute = 64},
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> ctc_cases() {
  std::vector<OpCase> all = {ctc_case("two_steps", {2, 3, 3, 1}, 0, Dtype::i32),
                             ctc_case("blank_in_the_middle", {5, 9, 6, 4}, 3, Dtype::i64),
                             ctc_case("no_labels", {3, 4, 5, 0}, 1, Dtype::i32),
                             ctc_case("one_example", {1, 40, 33, 10}, 0, Dtype::i32),
                             ctc_case("many_states", {2, 230, 7, 100}, 6, Dtype::i32),
                             ctc_case("many_steps", {3, 600, 20, 5}, 0, Dtype::i64),
                             ctc_case("many_classes", {2, 12, 1500, 5}, 0, Dtype::i32),
                             ctc_case("sure", {4, 30, 10, 6}, 0, Dtype::i32, 12),
                             ctc_case("no_examples", {0, 4, 3, 1}, 0, Dtype::i32),
                             in_bf16(ctc_case("one_example", {1, 40, 33, 10}, 0, Dtype::i32), {0})};
  all[5].tolerance.relative = 32;
  return all;
}

class CtcLossCases : public testing::TestWithParam<OpCase> {};
TEST_P(CtcLossCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, CtcLossCases, testing::ValuesIn(ctc_cases()), case_name);

/// Losses, and the gradient of their sum to the logits.
struct CtcFound {
  Doubles losses, gradient;
};
struct CtcGiven {
  Shape logits;
  std::vector<std::int32_t> labels, input_lengths, label_lengths;
  CtcLossOptions options{};
};
/// Logit i is a fraction that f32 holds.
CtcFound found_of(const CtcGiven& given, float nan_at = -1) {
  Graph graph;
  const std::int64_t examples = given.logits[0];
  HostTensor numbers(Dtype::f32, given.logits);
  for (std::int64_t i = 0; i < given.logits.num_elements(); ++i) {
    numbers.values<float>()[static_cast<std::size_t>(i)] = static_cast<float>((37 * i + 11) % 29 - 14) / 8;
  }
  if (nan_at >= 0) numbers.values<float>()[static_cast<std::size_t>(nan_at)] = NAN;
  const Value logits = placeholder(graph, "logits", given.logits);
  const auto whole = [&](const std::vector<std::int32_t>& values, Shape shape) {
    return constant(graph, HostTensor::of<std::int32_t>(std::move(shape), values));
  };
  const std::int64_t width = examples == 0 ? 0 : static_cast<std::int64_t>(given.labels.size()) / examples;
  const Value loss = ctc_loss(logits, whole(given.labels, {examples, width}), whole(given.input_lengths, {examples}),
                              whole(given.label_lengths, {examples}), given.options);
  Feeds feeds;
  feeds.emplace(logits, std::move(numbers));
  const auto results = run_kernels({loss, gradients(reduce_sum(loss), {logits})[0]}, feeds);
  return {doubles_of(results[0]), doubles_of(results[1])};
}

void expect_numbers(const Doubles& found, const Doubles& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << "element " << i << " is " << found[i];
    } else if (std::isinf(wanted[i])) {
      EXPECT_EQ(found[i], wanted[i]) << "element " << i;
    } else {
      EXPECT_NEAR(found[i], wanted[i], 0x1p-21 * std::max(1.0, std::abs(wanted[i]))) << "element " << i;
    }
  }
}

// Of torch.nn.functional.ctc_loss(log_softmax(x), ..., reduction="none") in PyTorch 2.15, in double.
TEST(CtcLossOfPyTorch, AndItsGradientAreTheSame) {
  const CtcFound plain = found_of({{2, 4, 3}, {1, 2, 2, 2}, {4, 3}, {2, 2}});
  expect_numbers(plain.losses, {1.69417800512, 4.76233547333});
  expect_numbers(plain.gradient, {0.0069138168636,
                                  -0.672154772638,
                                  0.665240955775,
                                  0.0114660108157,
                                  -0.0580962010419,
                                  0.0466301902262,
                                  0.0192879629631,
                                  0.226127472436,
                                  -0.245415435399,
                                  -0.0358756288279,
                                  0.0570683226051,
                                  -0.0211926937772,
                                  0.255415217425,
                                  0.694290544239,
                                  -0.949705761664,
                                  -0.744584782575,
                                  0.694290544239,
                                  0.0502942383358,
                                  0.0900305731704,
                                  0.244728471055,
                                  -0.334759044225,
                                  0,
                                  0,
                                  0});
  const CtcFound last = found_of({{3, 5, 4}, {0, 0, 2, 1, 0, 0, 2, 0, 0}, {5, 4, 3}, {3, 1, 0}, {.blank = 3}});
  expect_numbers(last.losses, {8.30663219596, 3.33224254125, 7.31568337554});
  expect_numbers(last.gradient, {-0.790718328015,
                                 0.233477228354,
                                 0.634656907195,
                                 -0.0774158075348,
                                 -0.129217311454,
                                 0.610787407104,
                                 0.0442452913702,
                                 -0.52581538702,
                                 -0.298000228855,
                                 0.610787407104,
                                 0.0442452913702,
                                 -0.357032469619,
                                 -0.483130752907,
                                 0.610787407104,
                                 -0.124537626031,
                                 -0.00311902816568,
                                 0.554135472347,
                                 0.0401414389809,
                                 -0.767494056158,
                                 0.17321714483,
                                 0.554135472347,
                                 0.0134304802121,
                                 0.10911574415,
                                 -0.676681696709,
                                 0.0320586032801,
                                 0.0428078683548,
                                 0.23688281809,
                                 -0.311749289725,
                                 0.0320586032801,
                                 -0.0631022701167,
                                 0.23688281809,
                                 -0.205839151253,
                                 0.0858914722933,
                                 -0.696053202085,
                                 0.634656907195,
                                 -0.024495177403,
                                 0,
                                 0,
                                 0,
                                 0,
                                 0.0858914722933,
                                 0.233477228354,
                                 0.634656907195,
                                 -0.954025607843,
                                 0.22469613,
                                 0.610787407104,
                                 0.0442452913702,
                                 -0.879728828474,
                                 0.22469613,
                                 0.610787407104,
                                 0.0442452913702,
                                 -0.879728828474,
                                 0,
                                 0,
                                 0,
                                 0,
                                 0,
                                 0,
                                 0,
                                 0});
}

TEST(CtcLoss, OfLabelsThatDoNotFitIsInfinite) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Doubles fits = {-0.0963807639606, -0.0587470203576, 0.155127784318, 0.231852494437, -0.253944234528,
                        0.0220917400911,  0.231852494437,   0.694290544239, -0.926143038675};
  CtcGiven given{{2, 3, 3}, {1, 1, 2, 1, 2, 0}, {3, 3}, {3, 2}};  // 1, blank, 1, 2: four steps
  for (const bool zero : {false, true}) {
    given.options.zero_infinity = zero;
    const CtcFound found = found_of(given);
    expect_numbers(found.losses, {zero ? 0 : INFINITY, 3.47014624553});
    Doubles wanted(9, zero ? 0 : kNan);
    wanted.insert(wanted.end(), fits.begin(), fits.end());
    expect_numbers(found.gradient, wanted);
  }
}

TEST(CtcLoss, OfNoStepsIsThatOfNoLabels) {
  const CtcFound found = found_of({{2, 2, 3}, {1, 1, 1, 2}, {0, 0}, {0, 1}});
  expect_numbers(found.losses, {0, INFINITY});
  expect_numbers(found.gradient, Doubles(12, 0));
}

TEST(CtcLoss, OfWrongLabelsAndLengthsIsNaNInItsExampleAlone) {
  const CtcGiven right{{2, 3, 3}, {1, 2, 1, 2}, {3, 3}, {2, 2}};
  const CtcFound wanted = found_of(right);
  const auto expect_first_nan = [&](const CtcGiven& given, float nan_at = -1) {
    const CtcFound found = found_of(given, nan_at);
    EXPECT_TRUE(std::isnan(found.losses[0]));
    EXPECT_EQ(found.losses[1], wanted.losses[1]);
    for (std::size_t i = 0; i < 18; ++i) {
      EXPECT_TRUE(i < 9 ? std::isnan(found.gradient[i]) : found.gradient[i] == wanted.gradient[i]) << "element " << i;
    }
  };
  for (const std::int32_t label : {-1, 0, 3, INT32_MAX}) {
    CtcGiven given = right;
    given.labels[1] = label;
    expect_first_nan(given);
  }
  for (const std::int32_t length : {-1, 4}) {
    CtcGiven given = right;
    given.input_lengths[0] = length;
    expect_first_nan(given);
  }
  for (const std::int32_t length : {-1, 3}) {
    CtcGiven given = right;
    given.label_lengths[0] = length;
    expect_first_nan(given);
  }
  expect_first_nan(right, 4);
}

TEST(CtcLoss, OfLogarithmsOfProbabilitiesIsThatOfTheirLogits) {
  Graph graph;
  const Value logits =
      fill(graph, {1, 3, 2}, 0.5) * constant(graph, HostTensor::of<float>({3, 2}, {1, 2, -3, 0, 4, 1}));
  const auto whole = [&](Shape shape, std::vector<std::int32_t> values) {
    return constant(graph, HostTensor::of<std::int32_t>(std::move(shape), values));
  };
  const Value labels = whole({1, 1}, {1}), steps = whole({1}, {3}), lengths = whole({1}, {1});
  const auto found = run_kernels(
      {ctc_loss(logits, labels, steps, lengths), ctc_loss(log_softmax(logits), labels, steps, lengths)}, {});
  EXPECT_TRUE(is_near(found[1], doubles_of(found[0]), {.relative = 4}));
}

TEST(CtcLoss, RefusesOtherShapesTypesAndOptions) {
  Graph graph;
  const auto in = [&](Shape shape, Dtype dtype = Dtype::i32) {
    return placeholder(graph, "in", std::move(shape), dtype);
  };
  const Value logits = in({2, 5, 4}, Dtype::f32), labels = in({2, 3}), lengths = in({2});
  const Value flat = in({5, 4}, Dtype::f32), whole = in({2, 5, 4}), three = in({3}), numbers = in({2}, Dtype::f32);
  const auto before = description(graph);
  const auto refused = [&](const std::function<void()>& call, const std::string& wanted) {
    const std::string text = error_text<Error>(call);
    EXPECT_TRUE(text.starts_with("ctc_loss 'ctc_loss") && contains(text, wanted)) << text;
    EXPECT_EQ(description(graph), before);
  };
  refused([&] { ctc_loss(flat, labels, lengths, lengths); }, "wanted [N, T, C], the batch first");
  refused([&] { ctc_loss(whole, labels, lengths, lengths); }, "i32[2,5,4]; wanted f32 or bf16");
  refused([&] { ctc_loss(logits, lengths, lengths, lengths); }, "labels are i32[2]; wanted [N, S]");
  refused([&] { ctc_loss(logits, labels, three, lengths); }, "input lengths are i32[3]; wanted [2]");
  refused([&] { ctc_loss(logits, labels, lengths, numbers); }, "label lengths are f32[2]; wanted i32 or i64");
  refused([&] { ctc_loss(logits, labels, lengths, lengths, {.blank = 4}); }, "blank is 4");
  refused([&] { ctc_loss(logits, labels, lengths, lengths, {.blank = -1}); }, "wanted the number of a class");
}

TEST(CtcLoss, RefusesSecondDerivatives) {
  Graph graph;
  const Value logits = placeholder(graph, "logits", {2, 5, 4}),
              labels = placeholder(graph, "labels", {2, 3}, Dtype::i32);
  const Value lengths = placeholder(graph, "lengths", {2}, Dtype::i32);
  const Value slope = gradients(reduce_sum(ctc_loss(logits, labels, lengths, lengths)), {logits})[0];
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { gradients(reduce_sum(square(slope)), {logits}); }),
                       "over all ways to spread labels has no rule"));
}

}  // namespace
}  // namespace sectionflow::testing_support
