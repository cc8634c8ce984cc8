// The models of the zoo: their published sizes, and that each learns, section by section as at once.

#include "examples/models/zoo.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "examples/models/inception_v3.h"
#include "examples/models/mnist_cnn.h"
#include "examples/models/nasnet.h"
#include "examples/models/resnet.h"
#include "examples/models/unet.h"
#include "examples/models/vgg.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/pool.h"
#include "sections/cut_search.h"
#include "tests/support/training_case.h"

namespace sectionflow::testing {
namespace {

std::int64_t parameters_of(const std::string& name, const ZooOptions& options = {}) {
  Graph graph;
  GraphSectionManager manager(graph);
  (void)zoo_model(name, options).build(graph, manager);
  return num_parameters(graph);
}

TEST(Zoo, ModelsHaveTheirPublishedNumberOfParameters) {
  EXPECT_EQ(parameters_of("mnist_cnn"), 3274634);
  EXPECT_EQ(parameters_of("resnet18"), 11689512);
  EXPECT_EQ(parameters_of("resnet34"), 21797672);
  EXPECT_EQ(parameters_of("resnet50"), 25557032);
  EXPECT_EQ(parameters_of("resnet101"), 44549160);
  EXPECT_EQ(parameters_of("resnet152"), 60192808);
  EXPECT_EQ(parameters_of("vgg16"), 138357544);
  EXPECT_EQ(parameters_of("vgg16_bn"), 138365992);
  EXPECT_EQ(parameters_of("vgg19"), 143667240);
  EXPECT_EQ(parameters_of("vgg19_bn"), 143678248);
  EXPECT_EQ(parameters_of("densenet121"), 7978856);
  EXPECT_EQ(parameters_of("mobilenet_v2"), 3504872);
  EXPECT_EQ(parameters_of("unet", {.classes = 1}), 31037633);
  EXPECT_EQ(parameters_of("inception_v3"), 23834568);
  EXPECT_EQ(parameters_of("vit_small"), 22050664);
  EXPECT_EQ(parameters_of("bert_base"), 109514298);
  EXPECT_EQ(parameters_of("llama"), 1100048384);
}

/// Elements of all variables.
std::int64_t num_elements(const Graph& graph) {
  std::int64_t count = 0;
  for (const Value& variable : graph.values(kVariables)) count += variable.shape().num_elements();
  return count;
}

TEST(Zoo, NetworksOfKerasHaveItsNumbersOfTrainableParametersAndOfAll) {
  // Keras counts the moving averages of batch norms among all parameters; sgd adds no variables of its own.
  struct Published {
    std::string name;
    std::int64_t trainable, all;
  };
  for (const Published& published :
       {Published{"xception", 22855952, 22910480}, Published{"nasnet_mobile", 5289978, 5326716}}) {
    Graph graph;
    GraphSectionManager manager(graph);
    (void)zoo_model(published.name).build(graph, manager);
    EXPECT_EQ(num_parameters(graph), published.trainable) << published.name;
    EXPECT_EQ(num_elements(graph), published.all) << published.name;
  }
}

/// The loss of a small network with these heads, before any training.
float loss_with(const std::vector<AuxiliaryHead>& heads) {
  Graph graph;
  GraphSectionManager manager(graph);
  const ImageModel model = build_image_model(graph, manager, mnist_cnn({.classes = 4, .width = 4}),
                                             {.image = {12, 12, 1}, .auxiliary_heads = heads});
  Session session(graph, {.threads = 1});
  session.initialize();
  const Batch batch = synthetic_images({12, 12, 1}, 4, {.batch = 3, .seed = 3});
  const Feeds feeds = {{model.images, batch.images}, {model.labels, batch.labels}, {model.is_training, false}};
  return session.run(std::vector{model.loss}, feeds)[0].item<float>();
}

TEST(ImageModel, AuxiliaryLossesCountByTheirWeights) {
  // Logits of zero, whose cross entropy is known.
  const auto zeros = [](Value x, Value) { return global_average_pool2d(x) * 0.0F; };
  const float alone = loss_with({});
  const float with_two =
      loss_with({{.block = 0, .weight = 0.5F, .logits = zeros}, {.block = 0, .weight = 2, .logits = zeros}});
  EXPECT_NEAR(with_two, alone + 2.5F * std::log(4.0F), 8 * std::numeric_limits<float>::epsilon() * with_two);
  EXPECT_THROW(loss_with({{.block = 3, .logits = zeros}}), ArgumentError) << "it has three blocks";
}

/// An inception_v3 of two channels, trained with its auxiliary head.
TrainingCase inception_with_auxiliary_head(const Cut& cut) {
  return {"inception_v3 with its auxiliary head", [cut](Graph& graph, GraphSectionManager& manager) {
            const InceptionV3Options network{.classes = 4, .width = 2};
            const ImageModelOptions options{.image = {299, 299, 3},
                                            .auxiliary_heads = {inception_v3_auxiliary_head(network)},
                                            .cut = cut,
                                            .optimizer = Adam{.learning_rate = 1e-3F}};
            const TrainableModel model = trainable_image_model(graph, manager, inception_v3(network), options);
            return TrainingNet{model.loss, [model](std::int64_t, FeedStore& store) {
                                 Batch batch = synthetic_images({299, 299, 3}, 4, {.batch = 2, .seed = 3});
                                 const Feeds feeds = model.feeds(batch);
                                 store.push_back(std::move(batch.images));
                                 store.push_back(std::move(batch.labels));
                                 return feeds;
                               }};
          }};
}

TEST(Zoo, AnAuxiliaryHeadHasItsPublishedSizeAndGivesTheSameBitsInSections) {
  Graph graph;
  GraphSectionManager manager(graph);
  (void)build_image_model(graph, manager, inception_v3(),
                          {.image = {299, 299, 3}, .auxiliary_heads = {inception_v3_auxiliary_head()}});
  EXPECT_EQ(num_parameters(graph), 27161264);
  const TrainOptions options{.steps = 2, .threads = 2};
  const TrainingState whole = train(inception_with_auxiliary_head({}), How::whole, options);
  for (const Cut& cut : {Cut{4}, Cut::blocks}) {
    EXPECT_EQ(first_difference(whole, train(inception_with_auxiliary_head(cut), How::sections, options)), "")
        << cut.sections << " sections";
  }
}

TEST(Zoo, ARoundedWidthOfMobilenetIsThePublishedOne) {
  // Half the width: torchvision's mobilenet_v2(width_mult=0.5).
  EXPECT_EQ(parameters_of("mobilenet_v2", {.width = 16}), 1968680);
}

TEST(Zoo, EveryModelIsBuiltInBf16WithItsF32Variables) {
  for (const std::string& name : zoo_names()) {
    Graph graph, narrow;
    GraphSectionManager manager(graph), narrow_manager(narrow);
    ZooOptions options;
    (void)zoo_model(name, options).build(graph, manager);
    options.precision = Dtype::bf16;
    (void)zoo_model(name, options).build(narrow, narrow_manager);
    EXPECT_EQ(num_parameters(narrow), num_parameters(graph)) << name;
    for (const Value& variable : narrow.values(kTrainableVariables)) EXPECT_EQ(variable.dtype(), Dtype::f32) << name;
  }
}

TEST(Zoo, NetworksAreBuiltForTheirSmallestImagesAndNoSmallerOnes) {
  for (const auto& [name, side] : {std::pair<const char*, std::int64_t>{"vgg16", 32},
                                   {"vgg19_bn", 32},
                                   {"densenet121", 29},
                                   {"inception_v3", 75},
                                   {"xception", 7},
                                   {"nasnet_mobile", 3},
                                   {"unet", 16}}) {
    EXPECT_GT(parameters_of(name, {.image = side, .width = 4}), 0) << name;
    EXPECT_THROW(parameters_of(name, {.image = side - 1, .width = 4}), ShapeError) << name;
  }
}

TEST(Zoo, DropoutIsLeftOutWhereItIsNotWanted) {
  for (const std::string name : {"mnist_cnn", "vgg19", "mobilenet_v2", "inception_v3"}) {
    Graph with, without;
    GraphSectionManager manager(with), other(without);
    (void)zoo_model(name, {.width = 8}).build(with, manager);
    (void)zoo_model(name, {.width = 8, .dropout = false}).build(without, other);
    EXPECT_LT(without.num_nodes(), with.num_nodes()) << name;
  }
}

/// A model small enough to be trained in a test.
struct SmallModel {
  std::string name;
  ZooOptions options;
  std::int64_t batch = 4;
  std::int64_t steps = 8;
};
std::ostream& operator<<(std::ostream& stream, const SmallModel& model) {
  return stream << model.name;
}

ZooOptions small(std::int64_t image, std::int64_t width, std::int64_t classes, float learning_rate = 1e-3F) {
  return {.optimizer = Adam{.learning_rate = learning_rate}, .image = image, .classes = classes, .width = width};
}

/// Of a transformer over texts.
ZooOptions small_text(int heads) {
  return {.optimizer = Adam{.learning_rate = 3e-3F},
          .width = 16,
          .layers = 3,
          .heads = heads,
          .sequence = 16,
          .vocabulary = 31};
}

class SmallModels : public ::testing::TestWithParam<SmallModel> {
 protected:
  TrainingCase in_sections(const Cut& cut) const {
    SmallModel model = GetParam();
    model.options.cut = cut;
    return {model.name, [model](Graph& graph, GraphSectionManager& manager) {
              const ZooModel zoo = zoo_model(model.name, model.options);
              const TrainableModel trainable = zoo.build(graph, manager);
              return TrainingNet{trainable.loss, [=](std::int64_t, FeedStore& store) {
                                   Batch batch = zoo.batch({.batch = model.batch, .seed = 3});
                                   const Feeds feeds = trainable.feeds(batch);
                                   // Moving a tensor leaves its bytes, which the feeds point to, where they are.
                                   store.push_back(std::move(batch.images));
                                   store.push_back(std::move(batch.labels));
                                   return feeds;
                                 }};
            }};
  }
};

/// The same network in sections that are placed as `cuts` says.
TrainingCase placed(const SmallModel& small_model, const PlaceCutsOptions& cuts) {
  SmallModel model = small_model;
  model.options.cut = Cut::placed;
  return {model.name, [model, cuts](Graph& graph, GraphSectionManager& manager) {
            PlaceCutsOptions options = cuts;
            options.batch = model.batch;
            manager.place_cuts(options);
            const ZooModel zoo = zoo_model(model.name, model.options);
            const TrainableModel trainable = zoo.build(graph, manager);
            return TrainingNet{trainable.loss, [=](std::int64_t, FeedStore& store) {
                                 Batch batch = zoo.batch({.batch = model.batch, .seed = 3});
                                 const Feeds feeds = trainable.feeds(batch);
                                 store.push_back(std::move(batch.images));
                                 store.push_back(std::move(batch.labels));
                                 return feeds;
                               }};
          }};
}

/// The mean of losses [first, last).
float mean_loss(const TrainingState& state, std::size_t first, std::size_t last) {
  float sum = 0;
  for (std::size_t i = first; i < last; ++i) sum += state.losses[i].item<float>();
  return sum / static_cast<float>(last - first);
}

TEST_P(SmallModels, LearnsAndInSectionsGivesTheSameBits) {
  const auto steps = static_cast<std::size_t>(GetParam().steps);
  const TrainOptions options{.steps = GetParam().steps, .threads = 2};
  const TrainingState whole = train(in_sections({}), How::whole, options);
  EXPECT_LT(mean_loss(whole, steps / 2, steps), mean_loss(whole, 0, steps / 2));
  EXPECT_LT(whole.losses.back().item<float>(), whole.losses.front().item<float>());
  for (const Cut& cut : {Cut{2}, Cut::blocks}) {
    EXPECT_EQ(first_difference(whole, train(in_sections(cut), How::sections, options)), "")
        << cut.sections << " sections";
  }
}

/// A network in placed sections, and what its cycle takes with all borders on the device.
struct PlacedModel {
  PlacedModel(const SmallModel& model, int sections) : manager(graph) {
    net = placed(model, {.sections = sections, .session = {.threads = 1}}).build(graph, manager);
    manager.set_section_options({.borders = BorderPolicy::keep});
  }
  ProgramReport plan() {
    FeedStore store;
    const Feeds feeds = net.feeds(0, store);
    Session session(graph, {.threads = 1});
    return manager.plan(session, {net.loss}, types_of(feeds));
  }

  Graph graph;
  GraphSectionManager manager;
  TrainingNet net;
};

TEST_P(SmallModels, InPlacedSectionsTakesNoMoreThanInEqualPartsByOperations) {
  PlacedModel two(GetParam(), 2);
  // Sections of one operation each, as many as there are: the place of every node, gradients and updates included.
  int num_places = 0;
  try {
    PlacedModel too_many(GetParam(), 1 << 20);
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.code(), ErrorCode::cuts_too_many);
    const std::string text = error.message();
    num_places = std::stoi(text.substr(text.find(" of the ") + 8));
  }
  PlacedModel each(GetParam(), num_places);
  const GroupId first = each.manager.section(0).group();
  std::vector<int> places;
  for (NodeId id = 0; id < each.graph.num_nodes(); ++id) {
    const GroupId group = each.graph.node(id).group();
    places.push_back(group == kNoGroup ? -1 : group - first);
  }
  for (const int sections : {2, 4}) {
    PlacedModel found(GetParam(), sections);
    ASSERT_EQ(found.graph.num_nodes(), each.graph.num_nodes());
    const ProgramReport placed = found.plan();
    const GroupId own = found.manager.section(0).group();
    found.graph.set_groups(groups_of_cut(places, planning::equal_parts(num_places, sections), own));
    const ProgramReport equal = found.plan();
    EXPECT_LE(placed.planned_peak_bytes, equal.planned_peak_bytes) << sections << " sections";
  }
}

TEST_P(SmallModels, InPlacedSectionsGivesTheSameBits) {
  const TrainOptions options{.steps = 3, .threads = 1};
  const TrainingState whole = train(in_sections({}), How::whole, options);
  const TrainingCase found = placed(GetParam(), {.sections = 4, .session = {.threads = 1}});
  EXPECT_EQ(first_difference(whole, train(found, How::sections, options)), "");
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, SmallModels,
    ::testing::Values(SmallModel{"mnist_cnn", small(12, 4, 4)}, SmallModel{"resnet18", small(32, 8, 4)},
                      SmallModel{"resnet50", small(64, 4, 4)}, SmallModel{"vgg16", small(32, 8, 4), 4, 12},
                      SmallModel{"vgg16_bn", small(32, 8, 4)}, SmallModel{"densenet121", small(32, 4, 4)},
                      SmallModel{"vgg19", small(32, 8, 4), 4, 12}, SmallModel{"inception_v3", small(75, 4, 4)},
                      SmallModel{"xception", small(32, 4, 4)}, SmallModel{"nasnet_mobile", small(32, 8, 4)},
                      SmallModel{"mobilenet_v2", small(32, 8, 4)}, SmallModel{"unet", small(32, 4, 3), 2},
                      SmallModel{"gpt", small_text(2)}, SmallModel{"unet_resize", small(32, 4, 3), 2},
                      SmallModel{"unet3d", small(16, 2, 2), 1}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Sequences, SmallModels,
    ::testing::Values(
        SmallModel{"vit_small",
                   {.optimizer = Adam{.learning_rate = 1e-3F},
                    .image = 32,
                    .classes = 4,
                    .width = 16,
                    .layers = 3,
                    .heads = 2}},
        SmallModel{"bert_base", small_text(2)}, SmallModel{"llama", small_text(4)},
        SmallModel{"lstm_lm",
                   {.optimizer = Adam{.learning_rate = 3e-3F}, .width = 16, .sequence = 12, .vocabulary = 31}},
        SmallModel{
            "gru_lm",
            {.optimizer = Adam{.learning_rate = 3e-3F}, .width = 16, .layers = 1, .sequence = 12, .vocabulary = 31}}),
    [](const auto& info) { return info.param.name; });

TEST(Zoo, RefusesWhatAModelHasNot) {
  EXPECT_THROW(zoo_model("resnet19"), ArgumentError);
  EXPECT_THROW(zoo_model("resnet18", {.heads = 2}), ArgumentError);
  EXPECT_THROW(zoo_model("mnist_resnet", {.image = 32}), ArgumentError);
  EXPECT_THROW(resnet({.depth = 19}), ArgumentError);
  EXPECT_THROW(vgg({.depth = 18}), ArgumentError);
  EXPECT_THROW(nasnet({.width = 1}), ArgumentError);
  EXPECT_THROW(unet({.dimensions = 4}), ArgumentError);
  EXPECT_THROW(unet({.dimensions = 3, .up_sampling = UpSampling::resize}), ArgumentError);
  Graph graph;
  GraphSectionManager manager(graph);
  EXPECT_THROW(zoo_model("mnist_cnn", {.cut = {4}}).build(graph, manager), ArgumentError) << "it has three blocks";
}

TEST(Zoo, ABatchIsAFunctionOfItsAddress) {
  const ZooModel model = zoo_model("mnist_cnn");
  const Batch batch = model.batch({.batch = 5, .seed = 1, .step = 2});
  EXPECT_EQ(batch.images.shape(), (Shape{5, 28, 28, 1}));
  EXPECT_TRUE(bitwise_equal(batch.images, model.batch({.batch = 5, .seed = 1, .step = 2}).images));
  EXPECT_FALSE(bitwise_equal(batch.images, model.batch({.batch = 5, .seed = 1, .step = 3}).images));
  for (const std::int32_t label : batch.labels.values<std::int32_t>()) {
    EXPECT_GE(label, 0);
    EXPECT_LT(label, 10);
  }
}

TEST(Cut, SpreadsSectionsEvenly) {
  EXPECT_EQ(section_begins({1}, 3), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(section_begins({2}, 4), (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(section_begins({3}, 8), (std::vector<bool>{true, false, true, false, false, true, false, false}));
  EXPECT_EQ(section_begins(Cut::blocks, 3), (std::vector<bool>{true, true, true}));
  EXPECT_THROW(section_begins({4}, 3), ArgumentError);
}

TEST(Cut, IsReadFromItsName) {
  EXPECT_EQ(cut_named("1"), Cut{});
  EXPECT_EQ(cut_named("12"), Cut{12});
  EXPECT_EQ(cut_named("blocks"), Cut::blocks);
  EXPECT_EQ(cut_named("placed"), Cut::placed);
  for (const char* name : {"", "0", "-1", "2x", "block", "99999999999"}) EXPECT_THROW(cut_named(name), ArgumentError);
}

}  // namespace
}  // namespace sectionflow::testing
