#include "train/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sectionflow.h"

namespace sectionflow {
namespace {

using testing::HasSubstr;

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
