// The nine ways in which TFLMS's users save a model that was trained with swapping, and go on with it: a network of two
// convolutions and two dense layers, trained, saved whole, as weights or as a checkpoint, and loaded to be trained on
// or to predict, with swapping in both.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "autodiff/optimizers.h"
#include "base/bytes.h"
#include "compare/compare_strategies.h"
#include "graph/graph_file.h"
#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/layout.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "swap/lms.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training_case.h"
#include "train/checkpoints.h"

namespace sectionflow::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_support::LogLines;

/// The two settings of the ancestor's tests, which swap as much as there is.
LmsOptions setting_a(bool trains) {
  return {.swapout_threshold = 1, .swapin_groupby = 0, .swapin_ahead = 1, .sync_mode = 3, .is_training = trains};
}
LmsOptions setting_b(bool trains) {
  return {.swapout_threshold = 1, .swapin_groupby = 1, .swapin_ahead = 1, .sync_mode = 0, .is_training = trains};
}

constexpr int kSteps = 2;

/// A model, built or loaded, and the session that has its values.
class Model {
 public:
  /// Builds it, with an optimiser or without.
  explicit Model(bool trains) {
    const Value images = placeholder(graph_, "images", {kDynamic, 12, 12, 1});
    const Value labels = placeholder(graph_, "labels", {kDynamic}, Dtype::i32);
    Value x = relu(conv2d(images, {.features = 4, .bias = true}));
    x = relu(conv2d(x, {.features = 8, .bias = true}));
    x = flatten(dropout(max_pool2d(x), {.rate = 0.25F}));
    x = dropout(relu(dense(x, {.features = 16})), {.rate = 0.5F});
    x = dense(x, {.features = 10, .name = "logits"});
    graph_.add_to_collection("predictions", x);
    const Value loss = mean(softmax_cross_entropy(x, labels));
    graph_.add_to_collection("loss", loss);
    if (trains) (void)minimize(Adagrad{.learning_rate = 0.1F}, loss);
  }
  /// Loads its graph.
  explicit Model(const std::string& file) { load_graph(graph_, file); }

  /// Edits the graph for swapping, which must find something to swap: a graph that only predicts is one chain, whose
  /// tensors are read as soon as they are there.
  void swap(const LmsOptions& options) {
    const LmsResult result = Lms(options).run(graph_);
    if (graph_.operations(kTrainingOperations).empty()) return;
    EXPECT_GT(result.num_swap_outs, 0);
    EXPECT_GT(result.num_swap_ins, 0);
  }
  Session& session() {
    if (!session_) {
      session_ = std::make_unique<Session>(graph_, SessionOptions{.device_memory = 32_MiB, .threads = 1, .seed = 5});
      session_->initialize();
    }
    return *session_;
  }
  void train(int steps) {
    const RunOptions training{.targets = graph_.operations(kTrainingOperations)};
    for (int i = 0; i < steps; ++i, ++step_) {
      const HostTensor images = random_images({6, 12, 12, 1}, 3, step_), labels = random_classes(6, 10, 3, step_);
      session().run({{find("images"), images}, {find("labels"), labels}}, training);
    }
  }
  void go_to(int step) { step_ = step; }
  HostTensor predict() {
    auto [logits] =
        session().run({graph_.values("predictions")[0]}, {{find("images"), random_images({6, 12, 12, 1}, 9, 0)}});
    return std::move(logits);
  }
  TrainingState state() { return {read_variables(session()), {}}; }
  const Graph& graph() const { return graph_; }

 private:
  Value find(const char* name) { return graph_.find(name).output(); }

  Graph graph_;
  std::unique_ptr<Session> session_;
  int step_ = 0;
};

class ProducersAndConsumers : public ::testing::Test {
 protected:
  ProducersAndConsumers() { undisturbed_.train(kSteps); }
  ~ProducersAndConsumers() override {
    for (const std::string& line : log_.lines) EXPECT_THAT(line, Not(HasSubstr("has been changed after")));
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  /// A consumer that trains on has the bits of a training without swaps that has never stopped.
  void expect_goes_on(Model& consumer) {
    consumer.go_to(kSteps);
    consumer.train(kSteps);
    undisturbed_.train(kSteps);
    EXPECT_EQ(first_difference(undisturbed_.state(), consumer.state()), "");
  }
  void expect_predicts(Model& consumer) { EXPECT_TRUE(bitwise_equal(consumer.predict(), undisturbed_.predict())); }
  /// A model that was trained with swaps.
  static std::unique_ptr<Model> trained(const LmsOptions& options) {
    auto model = std::make_unique<Model>(true);
    model->swap(options);
    model->train(kSteps);
    return model;
  }

  TemporaryFolder folder_;
  LogLines log_;
  Model undisturbed_{true};
};

/// M1 and M2: the whole model is saved, its graph included.
TEST_F(ProducersAndConsumers, AWholeModelTrainsOnAndPredicts) {
  {
    Model producer(true);
    save_graph(producer.graph(), path("model.json"));
    producer.swap(setting_a(true));
    producer.train(kSteps);
    (void)producer.predict();
    save_variables(producer.session(), path("model.safetensors"));
  }
  Model trains_on(path("model.json"));
  trains_on.swap(setting_a(true));
  EXPECT_THAT(load_variables(trains_on.session(), path("model.safetensors")).kept, IsEmpty());
  expect_goes_on(trains_on);

  Model before(true);
  before.train(kSteps);
  Model predicts(path("model.json"));
  predicts.swap(setting_a(false));
  (void)load_variables(predicts.session(), path("model.safetensors"));
  EXPECT_TRUE(bitwise_equal(predicts.predict(), before.predict()));
}

/// M3 and M4: weights in the format of checkpoints.
TEST_F(ProducersAndConsumers, WeightsOfACheckpointTrainOnAndPredict) {
  Checkpoints checkpoints(path("run"));
  ASSERT_TRUE(checkpoints.save(trained(setting_b(true))->session(), {.step = kSteps}));
  Model predicts(true);
  predicts.swap(setting_b(false));
  (void)load_variables(predicts.session(), path("run/step-2"));
  expect_predicts(predicts);
  Model trains_on(true);
  trains_on.swap(setting_b(true));
  (void)load_variables(trains_on.session(), path("run/step-2"));
  expect_goes_on(trains_on);
}

/// M5 and M6: weights in one file, for a model that is never compiled for training, too.
TEST_F(ProducersAndConsumers, WeightsOfAFileTrainOnAndPredictWithoutAnOptimizer) {
  save_variables(trained(setting_b(true))->session(), path("weights.safetensors"));
  Model predicts(false);
  predicts.swap(setting_b(false));
  const LoadReport report = load_variables(predicts.session(), path("weights.safetensors"), {.weights_only = true});
  EXPECT_THAT(report.kept, IsEmpty());
  EXPECT_FALSE(report.unused.empty()) << "the slots of Adagrad";
  expect_predicts(predicts);
  Model trains_on(true);
  trains_on.swap(setting_b(true));
  (void)load_variables(trains_on.session(), path("weights.safetensors"));
  expect_goes_on(trains_on);
}

/// M7: a whole model without its optimiser.
TEST_F(ProducersAndConsumers, AModelSavedWithoutItsOptimizerPredicts) {
  save_graph(Model(false).graph(), path("model.json"));
  save_variables(trained(setting_a(true))->session(), path("weights.safetensors"));
  Model predicts(path("model.json"));
  predicts.swap(setting_a(false));
  (void)load_variables(predicts.session(), path("weights.safetensors"), {.weights_only = true});
  expect_predicts(predicts);
}

/// M8 and M9: a checkpoint of model and optimiser, all of which must be taken; the model's part, where it predicts.
TEST_F(ProducersAndConsumers, ACheckpointOfModelAndOptimizerIsTakenWhole) {
  Checkpoints checkpoints(path("run"));
  ASSERT_TRUE(checkpoints.save(trained(setting_b(true))->session(), {.step = kSteps}));
  Model predicts(false);
  predicts.swap(setting_b(false));
  const auto matched = checkpoints.restore_latest(predicts.session(), {.weights_only = true});
  ASSERT_TRUE(matched);
  EXPECT_THAT(matched->report.kept, IsEmpty()) << "all that is there has been found";
  expect_predicts(predicts);
  Model trains_on(true);
  trains_on.swap(setting_b(true));
  const auto restored = checkpoints.restore_latest(trains_on.session());
  ASSERT_TRUE(restored);
  EXPECT_THAT(restored->report.kept, IsEmpty());
  EXPECT_THAT(restored->report.unused, IsEmpty()) << "all of it has been taken";
  expect_goes_on(trains_on);
}

}  // namespace
}  // namespace sectionflow::testing
