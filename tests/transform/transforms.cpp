// Each transform by itself and in random orders: the outputs stay, and what it is for goes.

#include <gmock/gmock.h>

#include <random>

#include "graph/graph_file.h"
#include "sectionflow.h"
#include "tests/support/temporary_folder.h"
#include "tests/transform/frozen_case.h"

namespace sectionflow {
namespace {

using testing::HasSubstr;
using testing_support::count_of;
using testing_support::FrozenCase;
using testing_support::relative_difference;

constexpr double kMostDifference = 1e-5;  // relative, where arithmetic is done in another order

/// Transforms that leave every bit as it is, as they are written.
const std::vector<std::string>& exact_transforms() {
  static const std::vector<std::string> all = {"strip_unused_nodes",    "remove_nodes(op=dropout, op=reshape)",
                                               "fold_constants",        "fold_constants(max_bytes=0)",
                                               "pack_weights(batch=3)", "sort_by_execution_order"};
  return all;
}

TEST(Transforms, EachByItselfLeavesEveryBit) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const FrozenCase it(seed);
    for (const std::string& text : exact_transforms()) {
      const InferenceGraph made = transform_graph(it.frozen, text);
      EXPECT_EQ(first_difference(it.of(made), it.logits), "") << text << ", " << it.trainable.model.text;
      EXPECT_EQ(made.outputs[0].name(), it.frozen.outputs[0].name());
    }
  }
}

TEST(Transforms, OutputsKeepTheirNames) {
  Graph graph;
  const std::vector<Value> halves = split(fill(graph, {4}, 2), 2, 0);
  const Value other = relu(halves[1]);
  const InferenceGraph made = transform_graph(graph, {halves[1], other}, "fold_constants");
  EXPECT_EQ(made.outputs[0].name(), halves[1].name());
  EXPECT_EQ(made.outputs[1].name(), other.name());
}

TEST(Transforms, FoldedBatchNormsGiveTheSameNumbers) {
  int folded = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const FrozenCase it(seed);
    const InferenceGraph made = transform_graph(it.frozen, "fold_batch_norms");
    EXPECT_LE(relative_difference(it.of(made), it.logits), kMostDifference) << it.trainable.model.text;
    folded += count_of(*it.frozen.graph, "batch_norm") - count_of(*made.graph, "batch_norm");
  }
  EXPECT_GT(folded, 5);
}

TEST(Transforms, InRandomOrdersGiveTheSameNumbers) {
  for (std::uint64_t seed = 20; seed < 32; ++seed) {
    const FrozenCase it(seed);
    std::mt19937_64 random(seed);
    std::vector<std::string> all = exact_transforms();
    all.insert(all.end(), {"fold_batch_norms", "fuse"});
    std::string text;
    for (int i = 0; i < 6; ++i) text += all[random() % all.size()] + (random() % 2 == 0 ? " " : "\n\t");
    const InferenceGraph made = transform_graph(it.frozen, text);
    EXPECT_LE(relative_difference(it.of(made), it.logits), kMostDifference) << "seed " << seed << ": " << text;
  }
}

/// Convolutions and products with batch norms behind them, of every kind that is folded, and averages of their own.
struct Norms {
  Norms() {
    const GraphScope scope = graph.scope("net");
    image = placeholder(graph, "image", {kDynamic, 6, 6, 4});
    Value x = batch_norm(conv2d(image, {.features = 8, .groups = 2, .bias = true}), {.relu = true});
    x = transpose(x, {0, 3, 1, 2});
    x = batch_norm(conv2d(x, {.features = 6, .stride = 2, .format = DataFormat::nchw}), {.format = DataFormat::nchw});
    x = reshape(x, {-1, 54});
    x = batch_norm(dense(x, {.features = 10}));
    const Value w = variable("transposed", normal_values({7, 10}));
    y = batch_norm(matmul(x, w, {.transpose_b = true}), {.relu = true});
    Session session(graph);
    session.initialize();
    std::mt19937_64 random(7);
    std::uniform_real_distribution<float> uniform(0.5F, 1.5F);
    for (const Value& each : graph.values(kVariables)) {
      if (each.shape().rank() != 1) continue;
      HostTensor numbers(each.type());
      for (float& number : numbers.values<float>()) number = uniform(random);
      session.write(each, numbers);
    }
    fed = HostTensor(Dtype::f32, {2, 6, 6, 4});
    for (float& number : fed.values<float>()) number = uniform(random) - 1;
    auto [found] = session.run({y}, {{image, fed}});
    wanted = std::move(found);
    frozen = freeze(session, {y});
  }
  Value normal_values(Shape shape) { return random_normal(graph, std::move(shape)); }
  HostTensor of(const InferenceGraph& made) const {
    Session session(*made.graph);
    session.initialize();
    return std::move(session.run(made.outputs, {{made["net/image"], fed}}).front());
  }

  Graph graph;
  Value image, y;
  HostTensor fed, wanted;
  InferenceGraph frozen;
};

TEST(FoldBatchNorms, FoldsIntoEveryKindOfProduct) {
  const Norms norms;
  ASSERT_EQ(count_of(*norms.frozen.graph, "batch_norm"), 4);
  const InferenceGraph made = transform_graph(norms.frozen, "fold_batch_norms");
  EXPECT_EQ(count_of(*made.graph, "batch_norm"), 0);
  EXPECT_EQ(count_of(*made.graph, "bias_add"), 4);
  EXPECT_EQ(count_of(*made.graph, "relu"), 2);
  EXPECT_LE(relative_difference(norms.of(made), norms.wanted), kMostDifference);
  EXPECT_EQ(made.outputs[0].name(), norms.y.name());
}

TEST(FoldBatchNorms, LeavesWhatOthersReadToo) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 4, 4, 2});
  const Value y = conv2d(x, {.features = 3});
  const Value z = batch_norm(y) + y, of_image = batch_norm(x);
  Session session(graph);
  session.initialize();
  EXPECT_EQ(count_of(*transform_graph(freeze(session, {z}), "fold_batch_norms").graph, "batch_norm"), 1);
  const InferenceGraph both = freeze(session, {of_image, y});
  EXPECT_EQ(count_of(*transform_graph(both, "fold_batch_norms").graph, "batch_norm"), 1);
}

TEST(Fuse, GivesTheSameNumbersAndLeavesNothingBetween) {
  const Norms norms;
  const InferenceGraph made = transform_graph(norms.frozen, "fold_batch_norms fuse");
  EXPECT_EQ(count_of(*made.graph, "fused_conv2d"), 2);
  EXPECT_EQ(count_of(*made.graph, "bias_add"), 2);  // of the products
  EXPECT_LE(relative_difference(norms.of(made), norms.wanted), kMostDifference);
}

TEST(Fuse, TakesResidualSumsOnce) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 5, 5, 8});
  const Value left = conv2d(x, {.features = 8, .bias = true}), right = conv2d(x, {.features = 8, .bias = true});
  const Value sum = relu(left + right);
  const Value y = relu(conv2d(sum, {.features = 8}) + sum);
  Session session(graph);
  session.initialize();
  const InferenceGraph frozen = freeze(session, {y}), made = transform_graph(frozen, "fuse");
  EXPECT_EQ(count_of(*made.graph, "fused_conv2d"), 3);
  EXPECT_EQ(count_of(*made.graph, "add") + count_of(*made.graph, "relu") + count_of(*made.graph, "bias_add"), 0);
  EXPECT_EQ(made.outputs[0].name(), y.name());
  HostTensor fed(Dtype::f32, {2, 5, 5, 8});
  std::mt19937_64 random(3);
  for (float& number : fed.values<float>()) number = static_cast<float>(random() % 100) / 50 - 1;
  const auto of = [&](const InferenceGraph& each) {
    Session run(*each.graph, {.check_schedules = true});
    run.initialize();
    return std::move(run.run(each.outputs, {{each["x"], fed}}).front());
  };
  EXPECT_LE(relative_difference(of(made), of(frozen)), kMostDifference);
}

TEST(Fuse, LeavesWhatOthersReadToo) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 5, 5, 8}), w = constant(graph, HostTensor(Dtype::f32, {3, 3, 8, 8}));
  const Value y = conv2d(x, w), z = relu(y);
  EXPECT_EQ(count_of(*transform_graph(graph, {z, y}, "fuse").graph, "fused_conv2d"), 0);
  EXPECT_EQ(count_of(*transform_graph(graph, {z}, "fuse").graph, "fused_conv2d"), 1);
}

TEST(Fuse, LeavesSumsWhoseRowsMayDiffer) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 5, 5, 8}),
              other = placeholder(graph, "other", {kDynamic, 5, 5, 8});
  const Value w = constant(graph, HostTensor(Dtype::f32, {3, 3, 8, 8}));
  const auto sums_left = [&](Value y) {
    return count_of(*transform_graph(graph, {y}, "strip_unused_nodes fuse").graph, "add");
  };
  EXPECT_EQ(sums_left(conv2d(x, w) + other), 1);
  EXPECT_EQ(sums_left(conv2d(x, w) + relu(x)), 0);
  EXPECT_EQ(sums_left(conv2d(clip(x, 0, 6), w) + x), 0);
}

TEST(Fuse, LeavesConvolutionsOfOpenFilters) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 5, 5, 8}), w = placeholder(graph, "w", {3, 3, 8, kDynamic});
  const Value y = relu(conv2d(x, w));
  EXPECT_EQ(count_of(*transform_graph(graph, {y}, "fuse").graph, "fused_conv2d"), 0);
}

TEST(FoldBatchNorms, LeavesWhatWouldNotBeFinite) {
  for (const float scale : {1.0F, 1e38F}) {
    Graph graph;
    const auto of = [&](float number) { return constant(graph, HostTensor::of<float>({1}, {number})); };
    const Value x = placeholder(graph, "x", {2, 3});
    const Value product = matmul(x, constant(graph, HostTensor::of<float>({3, 1}, {1e5F, 1, 1})));
    const Value y = batch_norm(product, of(scale), of(0), of(0), of(1), constant(graph, HostTensor::scalar(false))).y;
    EXPECT_EQ(count_of(*transform_graph(graph, {y}, "fold_batch_norms").graph, "batch_norm"), scale > 1 ? 1 : 0);
  }
}

TEST(GraphCopy, StoresLargeConstantsAndSwapsNone) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 16});
  const Value w = constant(graph, HostTensor(Dtype::f32, {16, 16}));
  const Value y = matmul(x, swap_in(swap_out(w)));
  const InferenceGraph made = transform_graph(graph, {y}, "");
  EXPECT_EQ(count_of(*made.graph, "stored_constant"), 1);
  EXPECT_EQ(count_of(*made.graph, "swap_out") + count_of(*made.graph, "swap_in"), 0);
  const TemporaryFolder folder;
  save_inference_graph(made, folder.path() / "model");
  EXPECT_EQ(count_of(*load_inference_graph(folder.path() / "model").graph, "stored_constant"), 1);
}

TEST(FoldConstants, ComputesOnceWhatConstantsAloneDecide) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3});
  const Value sum = constant(graph, HostTensor::of<float>({3}, {1, 2, 3})) + fill(graph, {3}, 4.0);
  const Value y = x * relu(sum * sum);
  const InferenceGraph made = transform_graph(graph, {y}, "fold_constants");
  EXPECT_EQ(made.graph->num_nodes(), 3);  // x, a constant and their product
  const HostTensor* content = constant_content(made.outputs[0].node().inputs()[1]);
  ASSERT_NE(content, nullptr);
  EXPECT_EQ(content->values<float>()[2], 49.0F);
}

TEST(FoldConstants, LeavesResultsThatAreLargerThanTheyMayBe) {
  Graph graph;
  const Value x = placeholder(graph, "x", {100, 100});
  const Value column = constant(graph, HostTensor(Dtype::f32, {100, 1}));
  const Value row = constant(graph, HostTensor(Dtype::f32, {1, 100}));
  const Value y = x + matmul(column, row);
  EXPECT_EQ(count_of(*transform_graph(graph, {y}, "fold_constants(max_bytes=39999)").graph, "matmul"), 1);
  EXPECT_EQ(count_of(*transform_graph(graph, {y}, "fold_constants(max_bytes=40000)").graph, "matmul"), 0);
}

TEST(RemoveNodes, TakesOutWhatHandsOnWhatItReads) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const Value y = relu(reshape(reshape(relu(x), {2, 3}), {3, 2}));
  const InferenceGraph made = transform_graph(graph, {y}, "remove_nodes(op=reshape)");
  EXPECT_EQ(count_of(*made.graph, "reshape"), 1);  // the other changes the shape
  EXPECT_EQ(count_of(*made.graph, "relu"), 2);
  const InferenceGraph output = transform_graph(graph, {y}, "remove_nodes(op=\"relu\")");
  EXPECT_EQ(count_of(*output.graph, "relu"), 1);  // an output stays
  EXPECT_EQ(output.outputs[0].name(), y.name());
}

TEST(StripUnusedNodes, KeepsWhatOutputsNeedAlone) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const Value y = relu(x);
  (void)variable("unused", fill(graph, {2}, 1.0));
  (void)(y * placeholder(graph, "other", {2}));
  const InferenceGraph made = transform_graph(graph, {y}, "strip_unused_nodes");
  EXPECT_EQ(made.graph->num_nodes(), 2);
}

TEST(SortByExecutionOrder, PutsEachBehindWhatItWaitsFor) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const Value late = constant(graph, HostTensor::of<float>({2}, {1, 2}), "late");
  const Value first = relu(x), second = square(x), third = first * late;
  graph.add_control_edge(Operation(second), Operation(first));
  graph.replace_input(third.node(), 0, second);
  const InferenceGraph made = transform_graph(graph, {third, first}, "sort_by_execution_order");
  EXPECT_EQ(made.graph->num_edits(), 0);
  for (NodeId id = 0; id < made.graph->num_nodes(); ++id) {
    const Node& node = made.graph->node(id);
    for (const Value& input : node.inputs()) EXPECT_LT(input.node().id(), id);
    for (const Node* before : node.control_inputs()) EXPECT_LT(before->id(), id);
  }
  EXPECT_EQ(made["late"].node().id() + 1, made.outputs[0].node().id());
}

TEST(TransformText, IsRefusedWithThePlaceAndTheNearestName) {
  Graph graph;
  const Value y = relu(placeholder(graph, "x", {2}));
  const auto refusal = [&](const std::string& text) {
    return error_text<ArgumentError>([&] { transform_graph(graph, {y}, text); });
  };
  EXPECT_THAT(refusal("fold_constant"), HasSubstr("at byte 0 of the text of transforms: 'fold_constant' is no "
                                                  "transform; did you mean 'fold_constants'?"));
  EXPECT_THAT(refusal("strip_unused_nodes quantise_weights"), HasSubstr("at byte 19"));
  EXPECT_THAT(refusal("fold_constants(max_byte=1)"), HasSubstr("did you mean 'max_bytes'?"));
  EXPECT_THAT(refusal("fold_constants(max_bytes=many)"), HasSubstr("is 'many'; wanted a whole number"));
  EXPECT_THAT(refusal("fold_constants(max_bytes=99999999999999999999)"), HasSubstr("wanted a whole number"));
  EXPECT_THAT(refusal("fold_constants(max_bytes=1, max_bytes=2)"), HasSubstr("given twice"));
  EXPECT_THAT(refusal("fold_constants(max_bytes"), HasSubstr("wanted '='"));
  EXPECT_THAT(refusal("fold_constants("), HasSubstr("have no end"));
  EXPECT_THAT(refusal("remove_nodes"), HasSubstr("remove_nodes(op=...)"));
  EXPECT_THAT(refusal("remove_nodes(op=\"relu)"), HasSubstr("a value has no end"));
  EXPECT_THAT(refusal("remove_nodes(op=rellu)"), HasSubstr("did you mean 'relu'?"));
  EXPECT_THAT(refusal("fold_constants; strip"), HasSubstr("wanted the name of a transform, there is ';'"));
  EXPECT_THAT(refusal("sort_by_execution_order(order=up)"), HasSubstr("is no argument of sort_by_execution_order"));
  EXPECT_THAT(refusal(std::string(1 << 17, ' ')), HasSubstr("wanted at most"));
  EXPECT_THAT(refusal("remove_nodes(op=swap_out)"), HasSubstr("moves values between host and device"));
  EXPECT_EQ(transform_graph(graph, {y}, " \n").graph->num_nodes(), 2);
  const Value w = variable("w", fill(graph, {2}, 1.0));
  EXPECT_THAT(error_text<ArgumentError>([&] { transform_graph(graph, {w}, "fuse remove_nodes(op=rellu)"); }),
              HasSubstr("did you mean 'relu'?"));  // before the graph is looked at
}

}  // namespace
}  // namespace sectionflow
