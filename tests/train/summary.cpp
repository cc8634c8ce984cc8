#include "train/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sectionflow.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

const SummaryRow& row_of(const GraphSummary& summary, const std::string& layer) {
  const auto row = std::find_if(summary.rows.begin(), summary.rows.end(),
                                [&](const SummaryRow& candidate) { return candidate.layer == layer; });
  if (row == summary.rows.end()) throw std::runtime_error("no row " + layer + " in\n" + summary.text());
  return *row;
}

TEST(Summary, TellsLayersOutputsParametersActivationsAndSections) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Value x = placeholder(graph, "x", {kDynamic, 8, 8, 3});
  const Value label = placeholder(graph, "label", {kDynamic}, Dtype::i32);
  Value y, loss;
  {
    const auto section = manager.new_section("stem");
    y = batch_norm(conv2d(x, {.features = 4, .bias = true}));
  }
  {
    const auto section = manager.new_section("head");
    y = dense(flatten(y), {.features = 10, .name = "classes"});
    loss = mean(softmax_cross_entropy(y, label));
  }
  manager.add_training_ops(Adam{}, loss);
  const GraphSummary found = summary(graph, {.batch = 5});

  const SummaryRow& conv = row_of(found, "conv2d");
  EXPECT_EQ(conv.output, (TensorType{Dtype::f32, {5, 8, 8, 4}}));
  EXPECT_EQ(conv.parameters, 3 * 3 * 3 * 4 + 4);
  EXPECT_EQ(conv.section, "section 0 'stem'");
  EXPECT_EQ(conv.activation_bytes % (5 * 8 * 8 * 4 * sizeof(float)), 0U);
  EXPECT_GT(conv.activation_bytes, 0U);
  const SummaryRow& norm = row_of(found, "batch_norm");
  EXPECT_EQ(norm.parameters, 8);
  EXPECT_EQ(norm.other_variables, 8);  // moving averages
  const SummaryRow& classes = row_of(found, "classes");
  EXPECT_EQ(classes.output, (TensorType{Dtype::f32, {5, 10}}));
  EXPECT_EQ(classes.parameters, 256 * 10 + 10);
  EXPECT_EQ(classes.section, "section 1 'head'");
  EXPECT_EQ(found.parameters, conv.parameters + norm.parameters + classes.parameters);
  EXPECT_GT(found.other_variables, 2 * found.parameters);
  EXPECT_TRUE(found.is_complete);
  for (const SummaryRow& row : found.rows) EXPECT_EQ(row.layer.find("gradients"), std::string::npos) << row.layer;

  const std::string text = found.text();
  EXPECT_THAT(text, HasSubstr("layer "));
  EXPECT_THAT(text, HasSubstr("f32[5,10]"));
  EXPECT_THAT(text, HasSubstr("2,570"));
  EXPECT_THAT(text, HasSubstr("section 1 'head'"));
  EXPECT_THAT(text, HasSubstr("2,690 parameters"));
}

TEST(Summary, CountsASharedVariableOnce) {
  Graph graph;
  SharedVariables shared(graph, "encoder");
  const Value x = placeholder(graph, "x", {2, 4});
  for (int i = 0; i < 2; ++i) {
    const auto scope = shared.scope();
    dense(x, {.features = 3});
  }
  const GraphSummary found = summary(graph);
  EXPECT_EQ(found.parameters, 15);
  std::int64_t in_rows = 0;
  for (const SummaryRow& row : found.rows) in_rows += row.parameters;
  EXPECT_EQ(in_rows, 15);
  EXPECT_EQ(found.rows.size(), 2U) << found.text();
}

TEST(Summary, TakesTypesOfPlaceholdersAndSaysWhatIsNotKnown) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, kDynamic});
  const Value y = relu(x);
  EXPECT_FALSE(summary(graph).is_complete);
  EXPECT_THAT(summary(graph).text(), HasSubstr("not known"));
  const GraphSummary found = summary(graph, {.types = {{x, Shape{3, 7}}}});
  EXPECT_TRUE(found.is_complete);
  EXPECT_EQ(found.activation_bytes, 84U);
  EXPECT_THROW(summary(graph, {.batch = 0}), ArgumentError);
  EXPECT_THROW(summary(graph, {.types = {{y, Shape{3, 7}}}}), ArgumentError);
  EXPECT_THROW(summary(graph, {.types = {{x, Shape{3}}}}), ShapeError);
}

TEST(Summary, HasARowForEachResultWithWhatIsComputedForItAlone) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 6}), label = placeholder(graph, "label", {kDynamic}, Dtype::i32);
  const Value logits = dense(relu(dense(x, {.features = 8})), {.features = 3});
  const Value loss = mean(softmax_cross_entropy(logits, label));
  (void)accuracy(logits, label);
  const Value by_hand = mean(cast(equal(argmax(logits), label), Dtype::f32));
  (void)softmax(logits);
  // Of one value that another is made of: both belong to the last.
  const Value percent = by_hand * 100.0F;
  const std::size_t before = summary(graph).rows.size();
  minimize(Adam{}, loss);
  const GraphSummary found = summary(graph, {.batch = 5});
  std::vector<std::string> layers, results;
  for (const SummaryRow& row : found.rows) (row.is_result ? results : layers).push_back(row.layer);
  EXPECT_THAT(layers, ElementsAre("dense", "relu", "dense_1", "softmax_cross_entropy"));
  EXPECT_THAT(results, UnorderedElementsAre("reduce_mean", "accuracy", "softmax", percent.name()));
  EXPECT_EQ(row_of(found, "reduce_mean").num_operations, 1);
  EXPECT_EQ(row_of(found, "accuracy").output, (TensorType{Dtype::f32, {}}));
  EXPECT_GT(row_of(found, "accuracy").num_operations, 3);
  EXPECT_EQ(row_of(found, "softmax").output, (TensorType{Dtype::f32, {5, 3}}));
  // argmax, equal, cast, mean, and the product.
  EXPECT_GE(row_of(found, percent.name()).num_operations, 5);
  EXPECT_GE(row_of(found, percent.name()).activation_bytes, 5 * (4 + 1 + 4) + 4 + 4U);
  EXPECT_THAT(found.text(),
              AllOf(HasSubstr("accuracy ("), HasSubstr(" operations)"), HasSubstr("reduce_mean (reduce) "),
                    Not(HasSubstr("argmax")), Not(HasSubstr("equal"))));
  // Before there is a training, nobody knows what is a result.
  EXPECT_GT(before, found.rows.size());
}

TEST(Summary, ALayerBesideWhatIsTrainedIsALayer) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 6});
  const Value y = relu(dense(x, {.features = 8}));
  const Value probe = dense(relu(y * 2.0F), {.features = 2, .name = "probe"});
  minimize(Sgd{}, mean(y), {graph.find("dense/kernel").output()});
  const GraphSummary found = summary(graph);
  EXPECT_FALSE(row_of(found, "probe").is_result);
  EXPECT_EQ(row_of(found, "probe").parameters, 18);
  EXPECT_FALSE(row_of(found, "relu_1").is_result);
  EXPECT_EQ(row_of(found, "probe").output, probe.type());
}

TEST(Summary, OfAnEmptyGraphIsEmptyAndOfAnEditedOneTheModels) {
  Graph empty;
  EXPECT_TRUE(summary(empty).rows.empty());
  EXPECT_THAT(summary(empty).text(), HasSubstr("0 parameters"));
  Graph graph;
  Value x = placeholder(graph, "x", {2, 4});
  for (int i = 0; i < 4; ++i) x = relu(dense(x, {.features = 4}));
  minimize(Sgd{}, mean(x));
  const std::string before = summary(graph).text();
  const LmsResult result = Lms({.swapout_threshold = 2, .swapin_groupby = 0, .swapin_ahead = 1}).run(graph);
  ASSERT_GT(result.num_swap_outs, 0);
  EXPECT_EQ(summary(graph).text(), before);
}

}  // namespace
}  // namespace sectionflow
