// Saved graphs: every op and every model of the zoo come back as they were, and train bit for bit alike.

#include "graph/graph_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "examples/models/zoo.h"
#include "graph/nodes/arithmetic.h"
#include "graph/nodes/indexing.h"
#include "graph/nodes/layout.h"
#include "graph/nodes/matmul.h"
#include "graph/nodes/pool.h"
#include "graph/nodes/shards.h"
#include "graph/nodes/update.h"
#include "graph/op_registry.h"
#include "graph/ops/fused_convolution.h"
#include "graph/ops/packed_weights.h"
#include "graph/ops/quantized_convolution.h"
#include "sectionflow.h"
#include "tests/support/elementwise_values.h"
#include "tests/support/graph_round_trip.h"
#include "tests/support/random_graph.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::elementwise_values;
using testing_support::expect_round_trip;

// ---- Every op.

/// Each of `values` summed into one loss, and its gradients to all trainable variables.
void add_gradients(const std::vector<Value>& values, const std::vector<Value>& inputs) {
  std::vector<Value> sums;
  for (const Value& value : values) sums.push_back(reduce_sum(value));
  (void)gradients(add_n(sums), inputs);
}

void add_elementwise(Graph& graph) {
  const Value x = placeholder(graph, "x", {kDynamic, 3}), y = placeholder(graph, "y", {kDynamic, 3});
  std::vector<Value> values = elementwise_values(x, y);
  for (const Value& value :
       {gelu(x, {Gelu::tanh}), print(x, {"x is", 3}), select(less(x, y), x, y),
        custom_gradient(
            {x}, [](const auto& in) { return square(in[0]); }, [](const auto& r) { return std::vector{r.dy}; }),
        cond(
            placeholder(graph, "flag", {}, Dtype::boolean), [&] { return x * y; }, [&] { return x; }),
        cond(
            constant(graph, HostTensor::scalar(true)), [&] { return square(x); },
            [&] { return assert_that(square(y), less(x, y), {.text = "x is less", .shown = {x}, .first = 2}); }),
        fake_quantize(x, reduce_min(x, {{0}}), reduce_max(x, {{0}})), accumulate(x, cast(y, Dtype::bf16), Dtype::f32),
        broadcast_to(reduce_max(x, {{1}, true}), {kDynamic, 3}),
        x * constant(graph, HostTensor::of<float>({3}, {0.1F, -0.0F, INFINITY})),
        x * graph
                .add_node("stored_constant", {},
                          ConstantOptions{std::make_shared<const HostTensor>(Dtype::f32, Shape{3})}, "stored")
                .output()}) {
    values.push_back(value);
  }
  const Value norm = global_norm({x, y});
  (void)clip_scale(norm, 5);
  values.push_back(norm);
  add_gradients(values, {x, y});
  for (const Value& compared :
       {equal(x, y), not_equal(x, y), x <= y, x > y, x >= y, is_finite(sign(x)), logical_not(x < y),
        logical_and(x<y, x> y), logical_or(x<y, x> y), logical_xor(x<y, x> y)}) {
    (void)cast(compared, Dtype::f64);
  }
  (void)one_hot(argmax(x), {.depth = 3, .on_value = 0.9F});
}

void add_shapes(Graph& graph) {
  const Value x = placeholder(graph, "z", {2, 4, 6});
  const Value table = placeholder(graph, "table", {5, 3});
  const Value rows_of_table = constant(graph, HostTensor::of<std::int32_t>({5}, {4, -1, 0, 0, 2}));
  (void)categorical(x, {.draws = 4});
  (void)gather_grad(placeholder(graph, "rows", {5, 3}), rows_of_table, table);
  const Value rows = gather(table, constant(graph, HostTensor::of<std::int64_t>({2}, {4, -1})));
  std::vector<Value> values = {reshape(x, {8, -1}),
                               same_size(x, x, {.axis = 1, .like_axis = -2, .what = "steps"}),
                               flatten(x),
                               transpose(x, {2, 0, -2}),
                               slice(x, {{0, 1, 2}, {2, -1, 3}}),
                               pad(x, {{0, 1, 0}, {2, 0, 0}, -std::numeric_limits<double>::infinity()}),
                               concat({x, x}, -1),
                               stack({x, x, x}, 1),
                               reduce_mean(x, {{0, 2}}),
                               rows,
                               cumsum(x, -2, {.exclusive = true, .reverse = true}),
                               top_k(x, 2).values,
                               take_along(x, top_k(x, 3).indices),
                               scatter_add(table, rows_of_table, table),
                               scatter_max(table, rows_of_table, table),
                               random_gumbel_like(x),
                               random_uniform_like(x, {.low = -1}),
                               split(x, 2, 1)[1],
                               split(x, {1, 5}, 2)[0],
                               matmul(x, transpose(x, {0, 2, 1})),
                               matmul(x, placeholder(graph, "w", {6, 7}), {.transpose_b = false}),
                               add_matmul(x, x, placeholder(graph, "square", {6, 6}), {.transpose_b = true}),
                               lstm_step(reshape(x, {6, 8}), placeholder(graph, "cell", {6, 2})).output};
  add_gradients(values, {x, table});
}

void add_layers(Graph& graph) {
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  const Value images = placeholder(graph, "images", {kDynamic, 8, 8, 2});
  const Value volumes = placeholder(graph, "volumes", {kDynamic, 4, 4, 4, 2});
  Value x = conv2d(images, {.features = 4, .stride = {2, 1}, .padding = {1, 2}, .bias = true});
  x = conv2d(x, {.features = 4, .padding = Padding::valid, .groups = 2});
  x = batch_norm(x, is_training, {.relu = true});
  x = batch_norm(x, is_training);
  x = dropout(x, is_training, {.rate = 0.25F});
  const Value four = fill(graph, {3, 3, 4, 4}, 0.5);
  std::vector<Value> values = {max_pool2d(x), average_pool2d(x, {.include_padding = true}), conv_transpose2d(x, four),
                               resize2d(x, {.height = 3, .width = 5, .method = ResizeMethod::bilinear})};
  const Value y = conv3d(conv3d(volumes, {.features = 2}), {.features = 3});
  values.insert(values.end(), {max_pool3d(y), average_pool3d(y), conv_transpose3d(y, fill(graph, {2, 2, 2, 3, 3}, 1))});
  const WindowSteps flat = window_steps<2>(1, 1, Padding::same, DataFormat::nhwc);
  const WindowSteps deep = window_steps<3>(1, 1, Padding3d::same, DataFormat::nhwc);
  (void)fused_convolution(images, fill(graph, {3, 3, 2, 2}, 0.5), fill(graph, {2}, 1), images,
                          {.convolution = {.steps = flat}, .relu = true});
  (void)fused_convolution(volumes, fill(graph, {3, 3, 3, 1, 4}, 0.5), fill(graph, {4}, 1), {},
                          {.convolution = {.steps = deep, .groups = 2}});
  const Value two = fill(graph, {2}, 1), integers = quantize(images, two, {.dtype = Dtype::u8, .zero_point = 7});
  const Value integer_volumes = quantize(volumes, two, {.axis = 4});
  (void)dequantize(integers, two, {.zero_point = 7});
  (void)quantized_add(integers, integers, {.b_factor = 2, .result = {.dtype = Dtype::i8, .relu = true}});
  (void)quantized_convolution(integers, placeholder(graph, "w8", {3, 3, 2, 2}, Dtype::i8), two, two, images,
                              {.convolution = {.steps = flat}, .product = {.residual_factor = 3}});
  (void)quantized_convolution(integer_volumes, placeholder(graph, "v8", {3, 3, 3, 2, 2}, Dtype::i8), two, two, {},
                              {.convolution = {.steps = deep}, .product = {.result = {.relu = true}}});
  (void)quantized_matmul(integers, placeholder(graph, "m8", {2, 2}, Dtype::i8), two, two);
  for (const std::string kind : {"quantized_max_pool", "quantized_average_pool"}) {
    (void)quantized_pool(integers, kind, {.window = {2, 2}, .steps = flat, .include_padding = true});
    (void)quantized_pool(integer_volumes, kind, {.window = {2, 2, 2}, .steps = deep});
  }
  (void)with_packed_weights({images, placeholder(graph, "packed", {64})},
                            {.op = "conv2d",
                             .options = ConvolutionOptions{.steps = flat},
                             .input = 1,
                             .types = {{Dtype::f32, {1, 8, 8, 2}}, {Dtype::f32, {3, 3, 2, 2}}},
                             .order = "in blocks"});
  x = group_norm(x, {.groups = 1});
  const Value tokens = rms_norm(layer_norm(placeholder(graph, "tokens", {2, 3, 5, 8})));
  values.push_back(attention(tokens, tokens, tokens, {.causal = true}));
  values.push_back(attention(tokens, tokens, tokens, {.scale = 0.3F}));
  const Value bias = variable("attention_bias", fill(graph, {3, 5, 5}, 0));
  values.push_back(attention(tokens, tokens, tokens, {.window = 2, .mask = bias, .dropout = 0.5F}));
  const Value logits = dense(flatten(x), {.features = 5});
  const Value weights = fill(graph, {5}, std::bit_cast<double>(0x7ff8000000000123U));
  values.push_back(softmax_cross_entropy(logits, placeholder(graph, "labels", {kDynamic}, Dtype::i32),
                                         {.label_smoothing = 0.1F, .class_weights = weights}));
  const Value lengths = placeholder(graph, "lengths", {2}, Dtype::i32);
  values.push_back(ctc_loss(dense(placeholder(graph, "steps", {2, 6, 3}), {.features = 5}),
                            placeholder(graph, "letters", {2, 3}, Dtype::i64), lengths, lengths,
                            {.blank = 4, .zero_infinity = true}));
  values.push_back(random_normal(graph, {2}) + truncated_normal(graph, {2}) + random_uniform(graph, {2}));
  (void)all_reduced(std::vector{tokens, x}, 2);
  (void)all_gathered(tokens, 3);
  (void)of_last_rank(tokens, 4);
  (void)shard_variable(variable("in_shards", fill(graph, {40}, 1), {.trainable = false}), {2});
  const Value copy = variable("copy", fill(graph, {240}, 1), {false}), master = master_of_copies(copy, {2, true, 1});
  (void)norm_of_shards({reduced_shard(master, tokens)}, {240}, {2, true, 1});
  (void)refresh_copy(copy, master, {});
  std::vector<Value> sums;
  for (const Value& value : values) sums.push_back(reduce_sum(value));
  const Value loss = add_n(sums);
  std::vector<Operation> updates;
  for (const Optimizer& optimizer :
       {Optimizer(Sgd{}), Optimizer(Adam{}), Optimizer(AdamW{}), Optimizer(Adagrad{}), Optimizer(RmsProp{}),
        Optimizer(Momentum{.nesterov = true}), Optimizer(Lion{}), Optimizer(Lamb{}), Optimizer(Adafactor{}),
        Optimizer(Adam{.slots = SlotStorage::eight_bit}), Optimizer(AdamW{.slots = SlotStorage::eight_bit})}) {
    const auto operations = minimize(optimizer, loss);
    updates.insert(updates.end(), operations.begin(), operations.end());
  }
  (void)group(graph, updates);
  (void)training_updates(Adam{}, loss,
                         {.micro_batches = 2, .skip_non_finite = true, .average = WeightAverageOptions{}});
}

std::set<std::string> ops_of(const Graph& graph) {
  std::set<std::string> ops;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) ops.insert(graph.node(id).op().name);
  return ops;
}

/// An op without options on f32 [2, 3], if it takes that.
bool can_be_added_plainly(Graph& graph, const OpDef& op) {
  if (op.options.read) return false;
  std::vector<Value> inputs;
  for (int i = 0; i < op.inputs.least; ++i) inputs.push_back(placeholder(graph, "plain", {2, 3}));
  try {
    (void)graph.add_node(op.name, inputs, {}, op.name);
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(GraphFile, EveryOpComesBack) {
  Graph graph;
  add_elementwise(graph);
  add_shapes(graph);
  add_layers(graph);
  const std::set<std::string> covered = ops_of(graph);
  std::string missing;
  for (const auto& [name, op] : op_registry().all()) {
    if (!covered.contains(name) && !can_be_added_plainly(graph, op)) missing += name + " ";
  }
  EXPECT_EQ(missing, "") << "add these ops, which have options, to the graph of this test";
  expect_round_trip(graph);
}

TEST(GraphFile, EveryOpDescribesItsOptionsBothWays) {
  for (const auto& [name, op] : op_registry().all()) {
    EXPECT_EQ(static_cast<bool>(op.options.read), static_cast<bool>(op.options.write)) << name;
    EXPECT_EQ(static_cast<bool>(op.options.read), *op.options.type != typeid(void)) << name;
  }
}

// ---- Models.

ZooOptions small_options(const std::string& name) {
  if (name == "gpt" || name == "llama" || name == "bert_base") {
    return {.optimizer = Adam{}, .width = 16, .layers = 2, .heads = 2, .sequence = 16, .vocabulary = 31};
  }
  if (name.ends_with("_lm")) {
    return {.optimizer = Adam{}, .width = 16, .layers = 2, .sequence = 16, .vocabulary = 31};
  }
  if (name == "vit_small") return {.image = 32, .classes = 3, .width = 16, .layers = 2, .heads = 2};
  if (name == "mnist_resnet") return {};
  const std::int64_t image = name == "unet3d" ? 16 : name == "inception_v3" ? 75 : 32;
  return {.optimizer = Momentum{}, .image = image, .classes = 3, .width = 4};
}

/// A model in a graph, with what trains it.
struct Model {
  Model(const std::string& name, ZooOptions options)
      : zoo(zoo_model(name, options)), manager(graph), trainable(zoo.build(graph, manager)) {}

  Graph graph;
  ZooModel zoo;
  GraphSectionManager manager;
  TrainableModel trainable;
};

class ZooFiles : public testing::TestWithParam<std::string> {};

TEST_P(ZooFiles, ComeBackWithTheirSectionsAndTraining) {
  const Model model(GetParam(), small_options(GetParam()));
  EXPECT_GT(model.graph.num_groups(), 0);
  EXPECT_FALSE(model.graph.operations(kTrainingOperations).empty());
  expect_round_trip(model.graph);
}
INSTANTIATE_TEST_SUITE_P(Models, ZooFiles, testing::ValuesIn(zoo_names()), [](const auto& info) { return info.param; });

TEST(GraphFile, RandomModelsComeBack) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const testing_support::TrainableRandomModel model({.seed = seed});
    expect_round_trip(model.graph);
  }
}

// ---- Training.

/// The same thing of another graph.
Value in_graph(Graph& graph, const Value& value) {
  return graph.find(value.node().name()).output(value.output());
}

/// All variables of two sessions, byte by byte.
void expect_same_variables(Session& a, Session& b) {
  for (const Value& variable : a.graph().values(kVariables)) {
    const Value other = b.graph().find(variable.name()).output();
    EXPECT_EQ(first_difference(a.read(variable), b.read(other)), "") << variable.name();
  }
}

class LoadedModels : public testing::TestWithParam<std::string> {};

TEST_P(LoadedModels, PlanAndTrainBitForBitAsTheSavedOnes) {
  Model model(GetParam(), small_options(GetParam()));
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "model.json").string();
  save_graph(model.graph, path);
  EXPECT_EQ(folder.num_files(), 1U);
  Graph graph;
  load_graph(graph, path);

  const SessionOptions options{.threads = 2, .seed = 11, .check_schedules = true};
  Session session(model.graph, options), loaded(graph, options);
  session.initialize();
  loaded.initialize();
  expect_same_variables(session, loaded);
  RunOptions training{.targets = model.manager.training_operations()}, loaded_training;
  for (const Operation& target : training.targets) {
    loaded_training.targets.emplace_back(graph.find(target.name()));
  }
  const Value loss = model.trainable.loss, loaded_loss = in_graph(graph, loss);
  for (std::int64_t step = 0; step < 5; ++step) {
    const Batch batch = model.zoo.batch({.batch = 4, .seed = 3, .step = step});
    const Feeds feeds = model.trainable.feeds(batch);
    Feeds loaded_feeds = feeds;
    for (Feed& feed : loaded_feeds) feed.value = in_graph(graph, feed.value);
    if (step == 0) {
      const auto plan = session.plan({loss}, types_of(feeds), training);
      EXPECT_EQ(plan.text(), loaded.plan({loaded_loss}, types_of(loaded_feeds), loaded_training).text());
    }
    const auto a = session.run(std::vector{loss}, feeds, training);
    const auto b = loaded.run(std::vector{loaded_loss}, loaded_feeds, loaded_training);
    EXPECT_EQ(first_difference(a[0], b[0]), "") << "loss of step " << step;
    EXPECT_TRUE(std::isfinite(a[0].item<float>()));
    expect_same_variables(session, loaded);
  }
  EXPECT_EQ(session.statistics().planned_peak_bytes, loaded.statistics().planned_peak_bytes);
}
INSTANTIATE_TEST_SUITE_P(Models, LoadedModels, testing::Values("mnist_cnn", "resnet18", "gpt", "unet"),
                         [](const auto& info) { return info.param; });

TEST(GraphFile, LoadedModelsPlanAsTheSavedOnes) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    testing_support::TrainableRandomModel model({.seed = seed});
    Graph graph;
    load_graph_text(graph, graph_text(model.graph));
    const testing_support::RandomBatch batch = testing_support::random_batch(model.model, 3, seed);
    const FeedTypes types = batch.types(model.model);
    FeedTypes loaded_types = types;
    for (FeedType& type : loaded_types) type.value = in_graph(graph, type.value);
    RunOptions loaded_training;
    for (const Operation& target : model.training.targets) {
      loaded_training.targets.emplace_back(graph.find(target.name()));
    }
    Session session(model.graph, {.threads = 2}), loaded(graph, {.threads = 2});
    const auto a = session.plan({model.model.loss}, types, model.training);
    const auto b = loaded.plan({in_graph(graph, model.model.loss)}, loaded_types, loaded_training);
    EXPECT_EQ(a.text(), b.text());
    EXPECT_EQ(a.planned_peak_bytes, b.planned_peak_bytes);
    EXPECT_EQ(a.num_steps, b.num_steps);
  }
}

TEST(GraphFile, BuildingGoesOnAsOnTheSavedGraph) {
  Graph original;
  const Value x = placeholder(original, "x", {kDynamic, 3});
  (void)dense(x, {.features = 2});
  (void)random_normal(original, {2});
  Graph loaded;
  load_graph_text(loaded, graph_text(original));
  for (Graph* graph : {&original, &loaded}) {
    const Value y = dense(graph->find("x").output(), {.features = 4});
    EXPECT_EQ(y.node().name().substr(0, 8), "dense_1/");
    EXPECT_EQ(random_normal(*graph, {2}).node().random_ordinal(), 3U);
    (void)minimize(Adam{}, mean(y), {graph->find("dense_1/kernel").output()});
  }
  EXPECT_TRUE(graph_text(original) == graph_text(loaded));
}

TEST(GraphFile, NodesAreOfThePlaceOfTheLoading) {
  Graph original, loaded;
  (void)placeholder(original, "x", {2});
  load_graph_text(loaded, graph_text(original), Where{"main.cpp", 12});
  EXPECT_EQ(loaded.find("x").where().text(), "main.cpp:12");
}

TEST(GraphFile, TextOfASmallGraphIsExact) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 2});
  const GroupId group = graph.new_group("section 0 'head'");
  const auto in_group = graph.enter_group(group);
  const auto scope = graph.scope("block");
  const Value c = constant(graph, 0.5F, "half");
  graph.add_to_collection("outputs", x * c);
  const std::string text = R"({"format":"sectionflow-graph",
"version":1,
"groups":[
"section 0 'head'"],
"scopes":[
"block"],
"nodes":[
{"name":"x","op":"placeholder","options":{"type":["f32",[-1,2]]},"types":[["f32",[-1,2]]]},
{"name":"block/half","op":"constant","options":{"content":{"type":["f32",[]],"bytes":"AAAAPw=="}},"group":0,"types":[["f32",[]]]},
{"name":"block/mul","op":"mul","inputs":[[0,0],[1,0]],"group":0,"types":[["f32",[-1,2]]]}],
"edits":[],
"order":[],
"collections":[
{"name":"outputs","value":[2,0],"group":0}]}
)";
  EXPECT_EQ(graph_text(graph), text);
}

}  // namespace
}  // namespace sectionflow
