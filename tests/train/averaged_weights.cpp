#include "train/averaged_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "compare/compare_strategies.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/shared_variables.h"
#include "sections/graph_section_manager.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoint.h"
#include "train/checkpoints.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Two sections of products, trained with averages of their weights.
struct Averaged {
  explicit Averaged(SessionOptions options = {.threads = 1, .check_schedules = true}) {
    {
      const auto section = manager.new_section();
      const auto shared = net.scope();
      y = dense(relu(dense(x, {.features = 3})), {.features = 1});
    }
    {
      const auto section = manager.new_section();
      loss = reduce_mean(square(y - 1.0F));
    }
    manager.add_training_ops(Sgd{.learning_rate = 0.1}, loss, {.average = WeightAverageOptions{.decay = 0.5F}});
    manager.prepare_training();
    const auto shared = net.scope([&](Value weight) { return manager.updates().average_of(weight); });
    by_averages = dense(relu(dense(x, {.features = 3})), {.features = 1});
    session = std::make_unique<Session>(graph, options);
    session->initialize();
  }
  void train(int cycles) {
    for (int i = 0; i < cycles; ++i) (void)manager.run_full_cycle(*session, {loss}, {{x, rows}});
  }
  HostTensor of(Value value) { return std::move(session->run({value}, {{x, rows}})[0]); }
  const std::vector<AveragedVariable>& averages() const { return manager.updates().averages; }

  Graph graph;
  GraphSectionManager manager{graph};
  SharedVariables net{graph, "net"};
  Value x = placeholder(graph, "x", {2, 2}), y, loss, by_averages;
  HostTensor rows = HostTensor::of<float>({2, 2}, {1, 2, -1, 0.5F});
  std::unique_ptr<Session> session;
};

TEST(AveragedWeights, StandInForTheWeightsAndGiveThemBack) {
  for (const bool on_host : {false, true}) {
    Averaged averaged({.swap_variables = on_host, .threads = 1, .check_schedules = true});
    averaged.train(4);
    const auto before = read_variables(*averaged.session);
    const HostTensor by_weights = averaged.of(averaged.y), by_averages = averaged.of(averaged.by_averages);
    EXPECT_FALSE(bitwise_equal(by_weights, by_averages));
    {
      const AveragedWeights stand_in(*averaged.session, averaged.averages());
      EXPECT_TRUE(bitwise_equal(averaged.of(averaged.y), by_averages)) << "as a net that is built with the averages";
      EXPECT_TRUE(bitwise_equal(averaged.of(averaged.by_averages), by_weights));
    }
    for (const auto& [name, tensor] : read_variables(*averaged.session)) {
      EXPECT_TRUE(bitwise_equal(tensor, before.at(name))) << name;
    }
    averaged.train(1);
  }
}

TEST(AveragedWeights, DoNotTouchTraining) {
  Averaged evaluated, plain;
  for (int i = 0; i < 3; ++i) {
    evaluated.train(1);
    plain.train(1);
    const AveragedWeights stand_in(*evaluated.session, evaluated.averages());
    (void)evaluated.of(evaluated.y);
  }
  const auto wanted = read_variables(*plain.session);
  for (const auto& [name, tensor] : read_variables(*evaluated.session)) {
    EXPECT_TRUE(bitwise_equal(tensor, wanted.at(name))) << name;
  }
}

TEST(AveragedWeights, AreTakenAlongByFiles) {
  Averaged trained, loaded;
  trained.train(3);
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "weights.safetensors").string();
  save_variables(*trained.session, path);
  (void)load_variables(*loaded.session, path);
  EXPECT_TRUE(bitwise_equal(trained.of(trained.by_averages), loaded.of(loaded.by_averages)));
  trained.train(2);
  loaded.train(2);
  EXPECT_TRUE(bitwise_equal(trained.of(trained.by_averages), loaded.of(loaded.by_averages)));
}

/// The net of Averaged, that nothing trains.
struct ForInference {
  ForInference() {
    const auto shared = net.scope();
    y = dense(relu(dense(x, {.features = 3})), {.features = 1});
    session = std::make_unique<Session>(graph, SessionOptions{.threads = 1});
    session->initialize();
  }
  HostTensor of(const HostTensor& rows) { return std::move(session->run({y}, {{x, rows}})[0]); }

  Graph graph;
  SharedVariables net{graph, "net"};
  Value x = placeholder(graph, "x", {2, 2}), y;
  std::unique_ptr<Session> session;
};

TEST(AveragedWeights, OfAFileAreLoadedByTheNamesOfTheWeights) {
  Averaged trained;
  trained.train(3);
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "weights.safetensors").string();
  save_variables(*trained.session, path);
  ForInference inference;
  const LoadReport report =
      load_variables(*inference.session, path, {.only = {"*/average"}, .rename = {{"*/average", "*"}}});
  EXPECT_EQ(report.loaded.size(), trained.averages().size());
  EXPECT_EQ(report.unused.size(), read_variables(*trained.session).size() - report.loaded.size());
  EXPECT_TRUE(bitwise_equal(inference.of(trained.rows), trained.of(trained.by_averages)));
  // As docs/training.md does it.
  ForInference predicting;
  Session& session = *predicting.session;
  load_variables(session, path, {.weights_only = true});
  EXPECT_TRUE(bitwise_equal(predicting.of(trained.rows), trained.of(trained.y)));
  load_variables(session, path, {.weights_only = true});
  load_variables(session, path, {.only = {"*/average"}, .rename = {{"*/average", "*"}}, .weights_only = true});
  EXPECT_TRUE(bitwise_equal(predicting.of(trained.rows), trained.of(trained.by_averages)));
  // In a graph that has averages, too.
  Averaged other;
  (void)load_variables(*other.session, path,
                       {.only = {"*/average"}, .rename = {{"*/average", "*"}}, .weights_only = true});
  EXPECT_TRUE(bitwise_equal(other.of(other.y), trained.of(trained.by_averages)));
  // Without a choice two tensors would have one name.
  EXPECT_THAT(
      [&] {
        (void)load_variables(*inference.session, path, {.rename = {{"*/average", "*"}}});
      },
      ThrowsMessage<DataError>(HasSubstr("would both be")));
  EXPECT_THAT([&] { (void)load_variables(*inference.session, path, {.only = {"*/averages"}}); },
              ThrowsMessage<ArgumentError>(HasSubstr("fits no variable of the graph")));
}

TEST(AveragedWeights, TrainingIsRefusedWhileTheyStandInAndGoesOnBehindThem) {
  Averaged averaged;
  averaged.train(1);
  {
    const AveragedWeights stand_in(*averaged.session, averaged.averages());
    const auto before = read_variables(*averaged.session);
    const auto refused = ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E035"), HasSubstr("still lives")));
    EXPECT_THAT([&] { averaged.train(1); }, refused);
    EXPECT_THAT(
        [&] {
          (void)averaged.manager.run_forward(*averaged.session, {averaged.loss}, {{averaged.x, averaged.rows}});
        },
        refused);
    EXPECT_THAT(
        [&] {
          averaged.session->run({{averaged.x, averaged.rows}}, {.targets = averaged.manager.training_operations()});
        },
        refused);
    EXPECT_THAT([&] { const AveragedWeights second(*averaged.session, averaged.averages()); },
                ThrowsMessage<ArgumentError>(HasSubstr("already")));
    for (const auto& [name, tensor] : read_variables(*averaged.session)) {
      EXPECT_TRUE(bitwise_equal(tensor, before.at(name))) << name;
    }
  }
  averaged.train(1);
  EXPECT_EQ(averaged.session->completed_cycles(), 2U);
}

TEST(AveragedWeights, CheckpointsLoadingAndInitializingAreRefusedWhileTheyStandIn) {
  const TemporaryFolder folder;
  const std::string given = (folder.path() / "given.safetensors").string();
  for (const bool asynchronous : {false, true}) {
    Averaged averaged;
    averaged.train(3);
    Checkpoints checkpoints((folder.path() / (asynchronous ? "a" : "s")).string(), {.asynchronous = asynchronous});
    ASSERT_TRUE(checkpoints.save(*averaged.session, {.step = 3}));
    ASSERT_TRUE(checkpoints.wait());
    const auto trained = read_variables(*averaged.session);
    const HostTensor by_averages = averaged.of(averaged.by_averages);
    {
      const AveragedWeights stand_in(*averaged.session, averaged.averages());
      const auto exchanged = read_variables(*averaged.session);
      const auto refused = ThrowsMessage<ArgumentError>(HasSubstr("SF-E035"));
      save_variables(*averaged.session, given);
      EXPECT_THAT([&] { (void)checkpoints.save(*averaged.session, {.step = 4}); }, refused);
      EXPECT_THAT([&] { (void)checkpoints.restore(*averaged.session, 3); }, refused);
      EXPECT_THAT([&] { (void)checkpoints.restore_latest(*averaged.session); }, refused);
      EXPECT_THAT([&] { (void)load_variables(*averaged.session, given); }, refused);
      EXPECT_THAT([&] { averaged.session->initialize(); }, refused);
      for (const auto& [name, tensor] : read_variables(*averaged.session)) {
        EXPECT_TRUE(bitwise_equal(tensor, exchanged.at(name))) << name;
      }
    }
    for (const auto& [name, tensor] : read_variables(*averaged.session)) {
      EXPECT_TRUE(bitwise_equal(tensor, trained.at(name))) << name;
    }
    EXPECT_EQ(checkpoints.list().size(), 1U) << "nothing was written";
    EXPECT_EQ(averaged.session->completed_cycles(), 3U);
    (void)load_variables(*averaged.session, given);
    EXPECT_TRUE(bitwise_equal(averaged.of(averaged.y), by_averages)) << "a file to give away has the averages";
    (void)checkpoints.restore(*averaged.session, 3);
    averaged.session->initialize();
    averaged.train(1);
  }
}

TEST(AveragedWeights, OfNothingOfOthersOrTooEarlyAreRefusedAndChangeNothing) {
  Averaged averaged, other;
  averaged.train(1);
  EXPECT_THAT([&] { const AveragedWeights none(*averaged.session, {}); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E035"), HasSubstr("no averages"))));
  EXPECT_THROW(AveragedWeights(*averaged.session, other.averages()), ArgumentError);
  std::vector<AveragedVariable> broken = averaged.averages();
  broken.push_back({averaged.averages()[0].variable, averaged.loss});
  EXPECT_THROW(AveragedWeights(*averaged.session, broken), ArgumentError);
  std::vector<AveragedVariable> twice = averaged.averages();
  const auto before = read_variables(*averaged.session);
  const AveragedVariable first = twice.front();
  for (const AveragedVariable& again : {first, AveragedVariable{first.average, first.variable}}) {
    twice.push_back(again);
    EXPECT_THAT([&] { const AveragedWeights exchanged(*averaged.session, twice); },
                ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E035"), HasSubstr("is listed twice"))));
    twice.pop_back();
  }
  for (const auto& [name, tensor] : read_variables(*averaged.session)) {
    EXPECT_TRUE(bitwise_equal(tensor, before.at(name))) << name;
  }
  (void)averaged.manager.run_forward(*averaged.session, {averaged.loss}, {{averaged.x, averaged.rows}});
  EXPECT_THROW(AveragedWeights(*averaged.session, averaged.averages()), ArgumentError);
  (void)averaged.manager.run_backward(*averaged.session);
  Session fresh(averaged.graph, {.threads = 1});
  EXPECT_THROW(AveragedWeights(fresh, averaged.averages()), ArgumentError);
  averaged.train(1);
}

}  // namespace
}  // namespace sectionflow
