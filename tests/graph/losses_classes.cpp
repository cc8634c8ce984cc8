// Cross entropy with labels that do not count, and means of what counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "graph/losses.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/softmax.h"
#include "runtime/session.h"
#include "tests/graph/losses_case.h"

namespace sectionflow::loss_case {
namespace {

using namespace testing_support;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN(), kNoEnd = std::numeric_limits<float>::infinity();

/// Losses and gradients of rows of logits in double.
struct Rows {
  Doubles losses, slopes;
};
Rows rows_of(const Doubles& logits, std::size_t classes, const Doubles& labels, const Doubles& weights,
             double smoothing, double ignored) {
  Rows rows;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    const double* x = logits.data() + n * classes;
    double sum = 0, loss = 0, total = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(x[c]);
    Doubles q(classes, 0);
    for (std::size_t c = 0; c < classes && labels[n] != ignored; ++c) {
      q[c] = weights[c] *
             ((static_cast<double>(c) == labels[n] ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes));
      loss -= q[c] * (x[c] - std::log(sum));
      total += q[c];
    }
    rows.losses.push_back(loss);
    for (std::size_t c = 0; c < classes; ++c) rows.slopes.push_back(total * std::exp(x[c]) / sum - q[c]);
  }
  return rows;
}

Doubles some_logits(std::size_t count) {
  Doubles x;
  for (std::size_t i = 0; i < count; ++i) x.push_back(static_cast<float>(3 * std::sin(static_cast<double>(7 * i + 1))));
  return x;
}

TEST(CrossEntropy, OfAnyRankHasNoLossAndNoGradientWhereALabelIsIgnored) {
  constexpr std::size_t kClasses = 5;
  const Doubles weights = {0.5, 1, 2, 0, 1.5};
  for (const Dtype dtype : {Dtype::i32, Dtype::i64}) {
    for (const std::int64_t ignored : {-100, 2, 7}) {
      for (const Shape& shape : {Shape{}, Shape{6}, Shape{2, 3}, Shape{3, 1, 4}, Shape{0}, Shape{2, 0}}) {
        std::vector<std::int64_t> dims = shape.dims();
        dims.push_back(kClasses);
        const Fed logits{{Dtype::f32, Shape(dims)},
                         some_logits(static_cast<std::size_t>(shape.num_elements()) * kClasses)};
        Fed labels{{dtype, shape}, {}};
        for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
          labels.values.push_back(static_cast<double>(i % 3 == 1 ? ignored : i % 5));
        }
        const std::vector<std::size_t> differentiated =
            shape.num_elements() > 0 ? std::vector<std::size_t>{0} : std::vector<std::size_t>{};
        const Found plain =
            found_of([=](const auto& in) { return cross_entropy(in[0], in[1], {.ignore_index = ignored}); },
                     {logits, labels}, differentiated);
        const Found weighed = found_of(
            [=](const auto& in) {
              return cross_entropy(in[0], in[1],
                                   {.ignore_index = ignored, .label_smoothing = 0.25F, .class_weights = in[2]});
            },
            {logits, labels, {{Dtype::f32, {kClasses}}, weights}}, differentiated);
        const auto number = static_cast<double>(ignored);
        const Rows of_plain = rows_of(logits.values, kClasses, labels.values, Doubles(kClasses, 1), 0, number);
        const Rows of_weighed = rows_of(logits.values, kClasses, labels.values, weights, 0.25, number);
        expect_near(plain.losses, of_plain.losses, 4, 4 * kF32Epsilon);
        expect_near(weighed.losses, of_weighed.losses, 4, 4 * kF32Epsilon);
        if (differentiated.empty()) continue;
        expect_near(plain.gradients[0], of_plain.slopes, 4, 4 * kF32Epsilon);
        expect_near(weighed.gradients[0], of_weighed.slopes, 4, 4 * kF32Epsilon);
        for (std::size_t i = 0; i < labels.values.size() * kClasses; ++i) {
          if (labels.values[i / kClasses] != number) continue;
          EXPECT_EQ(plain.gradients[0][i], 0);
          EXPECT_EQ(weighed.gradients[0][i], 0);
        }
      }
    }
  }
}

TEST(CrossEntropy, WithoutIgnoredLabelsHasTheBitsOfSoftmaxCrossEntropy) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const Fed logits{{dtype, {4, 3}}, some_logits(12)}, labels = class_numbers({4}, {0, 2, 1, 2});
    const Found found = found_of([](const auto& in) { return cross_entropy(in[0], in[1]); }, {logits, labels});
    const Found wanted = found_of([](const auto& in) { return softmax_cross_entropy(in[0], in[1]); }, {logits, labels});
    EXPECT_EQ(found.losses, wanted.losses);
    EXPECT_EQ(found.gradients, wanted.gradients);
  }
}

TEST(CrossEntropy, OfIgnoredRowsIsZeroWhateverTheirLogitsAre) {
  const std::vector<float> logits = {-kNoEnd, 0, 1, 1e4F, -1e4F, 0, kNoNumber, 0, 0};
  const Fed labels = class_numbers({3}, {-100, -100, -100});
  const Found found =
      found_of([](const auto& in) { return cross_entropy(in[0], in[1]); }, {numbers({3, 3}, logits), labels});
  EXPECT_EQ(found.losses, (Doubles{0, 0, 0}));
  // That of the row of NaN alone is none.
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(found.gradients[0][i], 0) << i;
  EXPECT_TRUE(std::isnan(found.gradients[0][6]));
}

TEST(CrossEntropy, OfAnyOtherLabelOutsideOfTheClassesIsNan) {
  for (const int label : {-1, 3, -101}) {
    const Found found = found_of([](const auto& in) { return cross_entropy(in[0], in[1]); },
                                 {numbers({1, 3}, {0, 0, 0}), class_numbers({1}, {label})});
    EXPECT_TRUE(std::isnan(found.losses[0])) << label;
    EXPECT_TRUE(std::isnan(found.gradients[0][0])) << label;
  }
}

TEST(CrossEntropy, AddsFewOperationsOnTheLabels) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Graph graph;
    const Value logits = placeholder(graph, "logits", {kDynamic, 3}, dtype);
    const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
    const int before = graph.num_nodes();
    const Value losses = cross_entropy(logits, labels);
    EXPECT_EQ(losses.type(), (TensorType{Dtype::f32, {kDynamic}}));
    EXPECT_LE(graph.num_nodes() - before, 7);
    for (NodeId id = before; id < graph.num_nodes(); ++id) {
      EXPECT_LE(graph.node(id).output_types()[0].shape.rank(), 1) << graph.node(id).name();
    }
  }
}

TEST(CrossEntropy, OfUnknownDimensionsHasTheShapeOfTheLabels) {
  Graph graph;
  const Value logits = placeholder(graph, "logits", {kDynamic, kDynamic, 3});
  const Value labels = placeholder(graph, "labels", {kDynamic, kDynamic}, Dtype::i64);
  const Value losses = cross_entropy(logits, labels);
  EXPECT_EQ(losses.shape(), (Shape{kDynamic, kDynamic}));
  op_cases::Feeds feeds;
  feeds.emplace(logits, HostTensor(Dtype::f32, {2, 4, 3}));
  feeds.emplace(labels, HostTensor(Dtype::i64, {2, 4}));
  const HostTensor found = std::move(run_kernels({losses}, feeds)[0]);
  EXPECT_EQ(found.shape(), (Shape{2, 4}));
  EXPECT_NEAR(found.values<float>()[7], std::log(3.0), 1e-6);
}

TEST(CrossEntropy, OfWrongArgumentsIsRefusedAndAddsNothing) {
  Graph graph;
  const Value logits = placeholder(graph, "logits", {2, 4, 3});
  const Value labels = placeholder(graph, "labels", {2, 4}, Dtype::i32);
  const Value open = placeholder(graph, "open", {2, 4, kDynamic}), scalar = placeholder(graph, "scalar", {});
  const Value weights = placeholder(graph, "weights", {4}), full = placeholder(graph, "full", {2, 4, 3});
  const Value few = placeholder(graph, "few", {2}, Dtype::i32);
  const int before = graph.num_nodes();
  EXPECT_THAT([&] { (void)cross_entropy(logits, few); },
              ThrowsMessage<ShapeError>(testing::AllOf(HasSubstr("f32[2,4,3]"), HasSubstr("'few' are i32[2]"),
                                                       HasSubstr("a label a row, [2,4]"))));
  EXPECT_THAT([&] { (void)cross_entropy(logits, full); },
              ThrowsMessage<ArgumentError>(HasSubstr("softmax_cross_entropy takes probabilities")));
  EXPECT_THAT([&] { (void)cross_entropy(open, labels); },
              ThrowsMessage<ShapeError>(HasSubstr("known number of classes")));
  EXPECT_THROW(cross_entropy(scalar, labels), ShapeError);
  EXPECT_THROW(cross_entropy(labels, labels), ArgumentError);
  EXPECT_THAT([&] { (void)cross_entropy(logits, labels, {.ignore_index = std::int64_t{1} << 40}); },
              ThrowsMessage<ArgumentError>(HasSubstr("cast the labels to i64")));
  EXPECT_THROW(cross_entropy(logits, labels, {.label_smoothing = 2}), ArgumentError);
  EXPECT_THROW(cross_entropy(logits, labels, {.class_weights = weights}), ShapeError);
  EXPECT_THROW(label_weights(full), ArgumentError);
  EXPECT_THROW(label_weights(labels, {.class_weights = full}), ShapeError);
  EXPECT_EQ(graph.num_nodes(), before);
  EXPECT_TRUE(graph.scope_names().empty());
}

TEST(LossesOfLabels, RefuseOptionsByTheNameOfTheCall) {
  Graph graph;
  const Value logits = placeholder(graph, "logits", {2, 3}), labels = placeholder(graph, "labels", {2}, Dtype::i32);
  const Value negative = constant(graph, HostTensor::of<float>({3}, {1, -0.5F, 2}), "negative");
  const int before = graph.num_nodes();
  const std::pair<CrossEntropyOptions, const char*> wrong[] = {
      {{.label_smoothing = 1.5F}, ": label_smoothing is 1.5; wanted 0 to 1"},
      {{.label_smoothing = -1}, ": label_smoothing is -1"},
      {{.class_weights = negative}, ": a class weight is -0.5; wanted a finite number, 0 or more"}};
  for (const auto& [options, says] : wrong) {
    CrossEntropyOptions given = options;
    EXPECT_THAT([&] { (void)cross_entropy(logits, labels, given); },
                ThrowsMessage<ArgumentError>(HasSubstr(std::string("cross_entropy") + says)));
    EXPECT_THAT([&] { (void)label_weights(labels, given); },
                ThrowsMessage<ArgumentError>(HasSubstr(std::string("label_weights") + says)));
  }
  EXPECT_EQ(graph.num_nodes(), before);
}

TEST(LossesOfLabels, HoldAnUnknownNumberOfClassesToThatOfTheirWeights) {
  Graph graph;
  const Value logits = placeholder(graph, "logits", {2, kDynamic}),
              labels = placeholder(graph, "labels", {2}, Dtype::i32), weights = placeholder(graph, "weights", {3}),
              open = placeholder(graph, "open", {kDynamic}), none = placeholder(graph, "none", {2, 0});
  const Value losses = cross_entropy(logits, labels, {.class_weights = weights});
  EXPECT_EQ(losses.type().text(), "f32[2]");
  (void)cross_entropy(placeholder(graph, "known", {2, 3}), labels, {.class_weights = open});
  EXPECT_THAT(
      [&] { (void)cross_entropy(none, labels); },
      ThrowsMessage<ShapeError>(HasSubstr("cross_entropy: logits 'none' are f32[2,0]; wanted a class at least")));
  testing_support::Feeds feeds;
  feeds.emplace(logits, HostTensor(Dtype::f32, {2, 4}));
  feeds.emplace(labels, HostTensor(Dtype::i32, {2}));
  feeds.emplace(weights, HostTensor(Dtype::f32, {3}));
  EXPECT_THAT([&] { (void)testing_support::run_kernels({losses}, feeds); },
              ThrowsMessage<ShapeError>(
                  HasSubstr("cross_entropy: the number of classes is 4 in f32[2,4], 3 in f32[3]; wanted one size")));
}

TEST(WeightedMean, TellsInWordsOfItsOwnWhatToDoAboutWeightsThatDoNotFit) {
  Graph graph;
  const Value rows = placeholder(graph, "rows", {4, 1}), row = placeholder(graph, "row", {4}),
              wide = placeholder(graph, "wide", {4, 3}), open = placeholder(graph, "open", {kDynamic, 3});
  const auto says = [&](Value losses, Value weights, const std::string& text) {
    EXPECT_THAT([&] { (void)weighted_mean(losses, weights); }, ThrowsMessage<ShapeError>(HasSubstr(text)));
  };
  says(
      wide, row,
      "weighted_mean: losses 'wide' are f32[4,3], weights 'row' are f32[4]; wanted weights of the shape of the losses, "
      "or that broadcast to it");
  says(wide, row, "expand_dims(weights, -1) gives them a last axis");
  says(row, rows, "squeeze(weights, {-1}) takes the last axis");
  says(open, wide, "give the placeholders of losses and weights the same sizes");
}

TEST(LabelWeights, AreThoseOfTheClassesAndZeroWhereIgnored) {
  const Fed labels = class_numbers({2, 3}, {0, -1, 2, 1, -1, 0}, Dtype::i64);
  const Found counts =
      found_of([](const auto& in) { return label_weights(in[0], {.ignore_index = -1}); }, {labels}, {});
  EXPECT_EQ(counts.losses, (Doubles{1, 0, 1, 1, 0, 1}));
  const Found weights =
      found_of([](const auto& in) { return label_weights(in[0], {.ignore_index = -1, .class_weights = in[1]}); },
               {labels, numbers({0.5F, 2, 4})}, {1});
  EXPECT_EQ(weights.losses, (Doubles{0.5, 0, 4, 2, 0, 0.5}));
  EXPECT_EQ(weights.gradients[0], (Doubles{2, 1, 1}));
}

TEST(WeightedMean, CountsWhatHasAWeight) {
  const Fed losses = numbers({2, 3}, {1, 2, 3, 4, kNoNumber, kNoEnd});
  const auto mean_by = [&](const Fed& weights) {
    return found_of([](const auto& in) { return weighted_mean(in[0], in[1]); }, {losses, weights});
  };
  const Found masked = mean_by(numbers({2, 3}, {1, 0, 1, 2, 0, 0}));
  EXPECT_EQ(masked.losses, Doubles{3});
  EXPECT_EQ(masked.gradients[0], (Doubles{0.25, 0, 0.25, 0.5, 0, 0}));
  EXPECT_EQ(mean_by({{Dtype::boolean, {2, 3}}, {1, 1, 1, 1, 0, 0}}).losses, Doubles{2.5});
  // One weight a row counts three times, one for all six.
  EXPECT_EQ(mean_by(numbers({2, 1}, {5, 0})).losses, Doubles{2});
  EXPECT_TRUE(std::isnan(mean_by(numbers({1}, {5})).losses[0]));
}

TEST(WeightedMean, OfNothingThatCountsIsZeroWithoutAGradient) {
  for (const bool is_weighted : {false, true}) {
    const Found found =
        found_of([=](const auto& in) { return weighted_mean(in[0], in[1], {.is_weighted = is_weighted}); },
                 {numbers({1, kNoNumber, 1e30F}), numbers({0, 0, 0})}, {0, 1});
    EXPECT_EQ(found.losses, Doubles{0});
    EXPECT_EQ(found.gradients[0], (Doubles{0, 0, 0}));
    EXPECT_EQ(found.gradients[1], (Doubles{0, 0, 0}));
  }
}

TEST(WeightedMean, OfWeightedLossesDividesTheirSum) {
  const Found found = found_of([](const auto& in) { return weighted_mean(in[0], in[1], {.is_weighted = true}); },
                               {numbers({1, 2, 3}), numbers({0.5F, 1, 2.5F})}, {0, 1});
  EXPECT_EQ(found.losses, Doubles{1.5});
  EXPECT_EQ(found.gradients[0], (Doubles{0.25, 0.25, 0.25}));
  // -(1 + 2 + 3) / 4^2.
  EXPECT_EQ(found.gradients[1], (Doubles{-0.375, -0.375, -0.375}));
}

TEST(WeightedMean, OfABatchThatTheFeedDecidesDividesByItsOwnWeights) {
  Graph graph;
  const Value losses = placeholder(graph, "losses", {kDynamic}), weights = placeholder(graph, "weights", {kDynamic});
  const Value loss = weighted_mean(losses, weights);
  Session session(graph, {.threads = 1, .check_schedules = true});
  session.initialize();
  const auto of = [&](const std::vector<float>& l, const std::vector<float>& w) {
    const HostTensor x = HostTensor::of<float>({static_cast<std::int64_t>(l.size())}, l);
    const HostTensor y = HostTensor::of<float>({static_cast<std::int64_t>(w.size())}, w);
    return session.run({loss}, {{losses, x}, {weights, y}})[0].item<float>();
  };
  EXPECT_EQ(of({1, 2, 4}, {1, 2, 1}), 2.25F);
  EXPECT_EQ(of({1, 2}, {0, 0}), 0);
  // A weight for all.
  EXPECT_EQ(of({1, 2, 3}, {2}), 2);
  // No sum is one of nothing.
  EXPECT_THROW(of({}, {}), ShapeError);
}

TEST(WeightedMean, OfWrongArgumentsIsRefusedAndAddsNothing) {
  Graph graph;
  const Value losses = placeholder(graph, "losses", {4}), column = placeholder(graph, "column", {4, 1});
  const Value whole = placeholder(graph, "whole", {4}, Dtype::i32);
  const int before = graph.num_nodes();
  EXPECT_THAT([&] { (void)weighted_mean(losses, column); }, ThrowsMessage<ShapeError>(HasSubstr("'column'")));
  EXPECT_THAT([&] { (void)weighted_mean(losses, whole); },
              ThrowsMessage<ArgumentError>(HasSubstr("wanted f32, bf16 or boolean")));
  EXPECT_THROW(weighted_mean(whole, losses), ArgumentError);
  EXPECT_EQ(graph.num_nodes(), before);
}

}  // namespace
}  // namespace sectionflow::loss_case
