// What freeze makes of a session, and what it refuses.

#include <gmock/gmock.h>

#include <algorithm>

#include "graph/graph_file.h"
#include "sectionflow.h"
#include "tests/support/temporary_folder.h"
#include "tests/transform/frozen_case.h"

namespace sectionflow {
namespace {

using testing::HasSubstr;
using testing_support::count_of;
using testing_support::FrozenCase;

TEST(Freeze, GivesTheBitsOfTheSession) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const FrozenCase it(seed);
    EXPECT_EQ(first_difference(it.of(it.frozen), it.logits), "") << "seed " << seed << ": " << it.trainable.model.text;
  }
}

TEST(Freeze, LeavesNoVariableAndNothingOfTraining) {
  const FrozenCase it(1);
  const Graph& graph = *it.frozen.graph;
  EXPECT_TRUE(graph.values(kVariables).empty());
  EXPECT_TRUE(graph.operations(kTrainingOperations).empty());
  EXPECT_EQ(count_of(graph, "variable"), 0);
  EXPECT_EQ(count_of(graph, "placeholder"), 1);
  EXPECT_EQ(graph.values(kOutputs), it.frozen.outputs);
  EXPECT_EQ(it.frozen.outputs[0].name(), it.trainable.model.logits.name());
}

/// A product of x and a matrix of 4096 bytes, and smaller ones.
struct Products {
  Products() {
    x = placeholder(graph, "x", {kDynamic, 32});
    y = matmul(matmul(x, variable("large", fill(graph, {32, 32}, 0.5))), variable("wide", fill(graph, {32, 4}, 0.25)));
    y = y * variable("small", fill(graph, {4}, 2.0));
    session.emplace(graph);
    session->initialize();
  }
  Graph graph;
  Value x, y;
  std::optional<Session> session;
};

TEST(Freeze, KeepsLargeConstantsInTheirPlacesFromRunToRun) {
  Products products;
  const InferenceGraph frozen = freeze(*products.session, {products.y});
  EXPECT_EQ(frozen["large"].node().op().name, "stored_constant");
  EXPECT_EQ(frozen["small"].node().op().name, "constant");
  Session session(*frozen.graph);
  session.initialize();
  const HostTensor x(Dtype::f32, {2, 32});
  const ProgramReport report = session.plan(frozen.outputs, {{frozen["x"], x.shape()}});
  EXPECT_EQ(report.persistent_bytes, 4096U);
  session.run(frozen.outputs, {{frozen["x"], x}});
  session.run(frozen.outputs, {{frozen["x"], x}});
  EXPECT_EQ(session.executions(frozen["large"].node()), 0);
  EXPECT_EQ(session.executions(frozen["small"].node()), 2);
}

TEST(Freeze, NeedsLittleMoreMemoryThanAnyPlanDoes) {
  Graph graph;
  const Value images = placeholder(graph, "images", {kDynamic, 32, 32, 3});
  const auto layer = [](Value x) { return batch_norm(conv2d(x, {.features = 16})); };
  Value y = relu(layer(images));
  for (int block = 0; block < 4; ++block) y = relu(layer(relu(layer(y))) + y);
  const Value logits = dense(global_average_pool2d(y), {.features = 10});
  Session session(graph);
  session.initialize();
  const InferenceGraph frozen = freeze(session, {logits});
  for (const char* transforms : {"", "fold_constants fold_batch_norms fuse"}) {
    const InferenceGraph made = transform_graph(frozen, transforms);
    Session inference(*made.graph);
    const ProgramReport plan = inference.plan(made.outputs, {{made["images"], Shape{8, 32, 32, 3}}});
    EXPECT_GT(plan.lower_bound_bytes, std::size_t{8} * 32 * 32 * 16 * 4);
    EXPECT_LE(static_cast<double>(plan.planned_peak_bytes), 1.05 * static_cast<double>(plan.lower_bound_bytes));
  }
}

TEST(Freeze, RunsWithItsConstantsOnTheHost) {
  Products products;
  HostTensor x(Dtype::f32, {2, 32});
  for (std::size_t i = 0; i < 64; ++i) x.values<float>()[i] = static_cast<float>(i % 7) - 3;
  auto [wanted] = products.session->run({products.y}, {{products.x, x}});
  const InferenceGraph frozen = freeze(*products.session, {products.y});
  Session session(*frozen.graph, {.swap_variables = true, .check_schedules = true});
  session.initialize();
  EXPECT_EQ(first_difference(session.run(frozen.outputs, {{frozen["x"], x}}).at(0), wanted), "");
  EXPECT_EQ(session.plan(frozen.outputs, {{frozen["x"], x.shape()}}).persistent_bytes, 0U);
}

TEST(Freeze, TakesAFlagThatNobodyFeedsForEvaluation) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 5});
  const Value y = dropout(batch_norm(x), {.rate = 0.5F});
  Session session(graph);
  session.initialize();
  const HostTensor fed = HostTensor::of<float>({1, 5}, {1, 2, 3, 4, 5});
  auto [wanted] = session.run({y}, {{x, fed}});
  const InferenceGraph frozen = freeze(session, {y});
  Session other(*frozen.graph);
  other.initialize();
  EXPECT_EQ(first_difference(other.run(frozen.outputs, {{frozen["x"], fed}}).at(0), wanted), "");
}

TEST(Freeze, CopiesBranches) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3});
  const Value flag = placeholder(graph, "flag", {}, Dtype::boolean);
  const Value w = variable("w", fill(graph, {3}, 3.0));
  const Value y = cond(
      flag, [&] { return x * w; }, [&] { return x + w; });
  Session session(graph);
  session.initialize();
  const InferenceGraph frozen = transform_graph(freeze(session, {y}), "fold_constants sort_by_execution_order");
  Session other(*frozen.graph);
  other.initialize();
  const HostTensor fed = HostTensor::of<float>({3}, {1, 2, 4});
  for (const bool is_taken : {true, false}) {
    auto [wanted] = session.run({y}, {{x, fed}, {flag, is_taken}});
    const auto found = other.run(frozen.outputs, {{frozen["x"], fed}, {frozen["flag"], is_taken}});
    EXPECT_EQ(first_difference(found.at(0), wanted), "");
  }
}

TEST(Freeze, RefusesWhatIsNoInference) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3});
  const Value w = variable("w", fill(graph, {3}, 1.0));
  const Value noise = x + random_normal(graph, {3});
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  const Value dropped = dropout(x, is_training, {.rate = 0.5F});
  const Value updated = x * 2.0F;
  graph.add_control_edge(assign(w, x), Operation(updated));
  Session session(graph);
  const auto refusal = [&](const std::vector<Value>& outputs) {
    return error_text<ArgumentError>([&] { freeze(session, outputs); });
  };
  EXPECT_THAT(refusal({w * x}), HasSubstr("session.initialize()"));
  session.initialize();
  EXPECT_THAT(refusal({}), HasSubstr("there are no outputs"));
  EXPECT_THAT(refusal({noise}), HasSubstr("draws random numbers"));
  EXPECT_THAT(refusal({dropped}), HasSubstr("is_training"));
  EXPECT_THAT(refusal({updated}), HasSubstr("updates a variable"));
  Graph other;
  EXPECT_THAT(refusal({constant(other, 1.0F)}), HasSubstr("none of the graph"));
  EXPECT_THAT(error_text<ArgumentError>([&] {
                freeze(session, {dropped}, {.feeds = {{w, HostTensor()}}});
              }),
              HasSubstr("'w' is no placeholder"));
  EXPECT_EQ(freeze(session, {dropped}, {.feeds = {{is_training, false}}}).outputs.size(), 1U);
  EXPECT_THAT(error_text<ArgumentError>([&] { transform_graph(graph, {w * x}, "strip_unused_nodes"); }),
              HasSubstr("take what freeze gives"));
  EXPECT_THAT(error_text<ArgumentError>([&] { transform_graph(graph, {noise + w}, "strip_unused_nodes"); }),
              HasSubstr("take what freeze gives"));  // random or not
}

TEST(Freeze, SwapsNoConstant) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 32}), w = placeholder(graph, "w", {32, 32});
  const Value y = matmul(x, swap_in(swap_out(w)));
  Session session(graph);
  session.initialize();
  const InferenceGraph frozen = freeze(session, {y}, {.feeds = {{w, HostTensor(Dtype::f32, {32, 32})}}});
  EXPECT_EQ(count_of(*frozen.graph, "swap_out") + count_of(*frozen.graph, "swap_in"), 0);
  Session other(*frozen.graph);
  other.initialize();
  const HostTensor fed(Dtype::f32, {2, 32});
  EXPECT_EQ(first_difference(other.run(frozen.outputs, {{frozen["x"], fed}}).at(0), fed), "");
}

TEST(GraphTexts, ThatSwapVariablesAreRefused) {
  Graph graph;
  const Value v = variable("v", fill(graph, {2}, 1.0));
  const Value x = placeholder(graph, "x", {2});
  (void)swap_in(swap_out(x));
  std::string text = graph_text(graph);
  const std::size_t at = text.find("\"inputs\":[[", text.find("\"op\":\"swap_out\"")) + 11;
  ASSERT_LT(at, text.size());
  text.replace(at, text.find(',', at) - at, std::to_string(v.node().id()));
  Graph other;
  EXPECT_THAT(error_text<DataError>([&] { load_graph_text(other, text); }),
              HasSubstr("a variable lives in the session"));
}

TEST(Freeze, ConstantsAreNeverUpdated) {
  Products products;
  const InferenceGraph frozen = freeze(*products.session, {products.y});
  const Value large = frozen["large"];
  EXPECT_THAT(error_text<ArgumentError>([&] { assign(large, large); }), HasSubstr("wanted a variable"));
  Session session(*frozen.graph);
  session.initialize();
  EXPECT_EQ(first_difference(session.read(large), *constant_content(large)), "");
  EXPECT_THAT(error_text<ArgumentError>([&] { session.write(large, HostTensor(large.type())); }),
              HasSubstr("that is a constant"));
}

}  // namespace
}  // namespace sectionflow
