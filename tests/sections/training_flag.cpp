// A graph's training flag has the value that a run gives it, and the bits of a placeholder that is fed that value.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fit/insert_swaps.h"
#include "graph/graph_file.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "sections/graph_section_manager.h"
#include "swap/lms.h"
#include "tests/sections/image_nets.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

// ---- Every strategy.

/// How the network is told whether it trains: by a placeholder that each run feeds, or by the graph's flag, which is
/// asked for outside of all sections or by the first layer.
enum class Told { by_feed, by_flag, by_flag_in_a_section };

/// Batch norms and dropout in each section; the flag is read as data too, inside a section and outside.
TrainingCase flag_case(Told told, const LmsOptions* lms = nullptr) {
  return {"training flag", [=](Graph& graph, GraphSectionManager& manager) {
            const Value images = placeholder(graph, "images", {kDynamic, 8, 8, 3});
            const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
            Value fed;
            if (told == Told::by_feed) fed = placeholder(graph, "fed", {}, Dtype::boolean);
            if (told == Told::by_flag) (void)graph.training();
            const auto flag = [&] { return fed.valid() ? fed : graph.training(); };
            Value x = images, loss;
            for (int k = 0; k < 3; ++k) {
              auto section = manager.new_section();
              x = conv2d(x, {.features = 4});
              x = fed.valid() ? batch_norm(x, fed, {.decay = 0.9F, .relu = true})
                              : batch_norm(x, {.decay = 0.9F, .relu = true});
              x = fed.valid() ? dropout(x, fed, {.rate = 0.3F}) : dropout(x, {.rate = 0.3F});
              if (k == 1) x = select(flag(), x * 1.5F, x);
            }
            {
              auto section = manager.new_section();
              const Value logits = dense(reduce_mean(x, {.axes = {1, 2}}), {.features = kClasses});
              loss = mean(softmax_cross_entropy(logits, labels)) * (cast(flag(), Dtype::f32) + 1.0F);
            }
            const Value outside = loss + cast(flag(), Dtype::f32);
            manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss);
            manager.prepare_training();
            if (lms != nullptr) (void)Lms(*lms).run(graph);
            const auto feeds = [=](bool training) {
              return [=](std::int64_t step, FeedStore& store) {
                store.reserve(2);
                store.push_back(random_images({kBatch, 8, 8, 3}, 11, step));
                store.push_back(random_classes(kBatch, kClasses, 11, step));
                Feeds all = {{images, store[0]}, {labels, store[1]}};
                if (fed.valid()) all.push_back({fed, training});
                return all;
              };
            };
            return TrainingNet{loss, feeds(true), {loss, outside}, feeds(false)};
          }};
}

TEST(TrainingFlag, EveryStrategyGivesTheSameBits) {
  expect_exact(flag_case(Told::by_flag));
}

TEST(TrainingFlag, GivesTheBitsOfAPlaceholderThatIsFed) {
  for (const How how : {How::whole, How::sections, How::halves, How::mixed}) {
    const TrainingRecord fed = record_training(flag_case(Told::by_feed), how, {.steps = 5});
    for (const Told told : {Told::by_flag, Told::by_flag_in_a_section}) {
      const TrainingRecord flag = record_training(flag_case(told), how, {.steps = 5});
      EXPECT_EQ(first_difference(fed, flag), "") << name_of(how);
      EXPECT_TRUE(flag.complaints.empty());
    }
  }
}

TEST(TrainingFlag, GivesTheSameBitsWhereTensorsOfTheWholeGraphAreOffloaded) {
  const TrainingRecord plain = record_training(flag_case(Told::by_feed), How::whole, {.steps = 5});
  TrainOptions swaps{.steps = 5};
  swaps.session.device_memory = 256_KiB;
  swaps.on_session = [](How, const Graph&, Session& session) { insert_swaps(session); };
  EXPECT_EQ(first_difference(plain, record_training(flag_case(Told::by_flag), How::whole, swaps)), "");
  const LmsOptions lms{.swapout_threshold = 1, .swapin_groupby = 0, .swapin_ahead = 1};
  EXPECT_EQ(first_difference(plain, record_training(flag_case(Told::by_flag, &lms), How::whole, {.steps = 5})), "");
}

// ---- Its value.

/// A trained product in two sections, a moving average, and the flag as data.
struct Flagged {
  Flagged() {
    Value y;
    {
      auto section = manager.new_section();
      w = variable("w", fill(graph, {4}, 2));
      average = variable("average", fill(graph, {4}, 0), {.trainable = false});
      y = x * w;
      graph.add_to_collection(kUpdateOperations, update_moving_average(average, y, 0.5F));
    }
    {
      auto section = manager.new_section();
      loss = mean(y * (cast(flag, Dtype::f32) + 1.0F));
    }
    gradient = gradients(loss, {w}).front();
    manager.add_training_ops(Sgd{}, loss);
    manager.prepare_training();
    session = std::make_unique<Session>(graph, SessionOptions{.threads = 1, .check_schedules = true});
    session->initialize();
  }

  Feeds feeds(std::optional<bool> fed = std::nullopt) const {
    Feeds feeds = {{x, data}};
    if (fed) feeds.push_back({flag, *fed});
    return feeds;
  }
  /// What a run that executes `targets` says.
  bool of_run(const std::vector<Operation>& targets, std::optional<bool> fed = std::nullopt) {
    return session->run({flag}, feeds(fed), {.targets = targets})[0].item<bool>();
  }
  bool of_cycle(std::optional<bool> fed = std::nullopt) {
    return manager.run_full_cycle(*session, {flag}, feeds(fed))[0].item<bool>();
  }

  Graph graph;
  GraphSectionManager manager{graph};
  Value x = placeholder(graph, "x", {4}), flag = graph.training();
  Value w, average, loss, gradient;
  HostTensor data = HostTensor::of<float>({4}, {1, 2, 3, 4});
  std::unique_ptr<Session> session;
};

TEST(TrainingFlag, IsTrueWhereUpdatesAreAppliedAndFalseElsewhere) {
  Flagged f;
  const auto& training = f.manager.training_operations();
  EXPECT_FALSE(f.of_run({}));
  EXPECT_TRUE(f.of_run(training));
  EXPECT_TRUE(f.of_run({group(f.graph, training)}));
  EXPECT_EQ(f.session->completed_cycles(), 2U);
  // The moving average is no application of gradients: alone it does not train, and so it does nothing.
  EXPECT_FALSE(f.of_run(f.graph.operations(kUpdateOperations)));
  EXPECT_EQ(f.session->completed_cycles(), 2U);
  EXPECT_FALSE(f.session->run({f.flag, f.gradient}, f.feeds())[0].item<bool>());
  EXPECT_TRUE(f.of_cycle());
  EXPECT_TRUE(f.manager.run_forward(*f.session, {f.flag}, f.feeds())[0].item<bool>());
  f.manager.discard_forward(*f.session);
  EXPECT_EQ(f.session->completed_cycles(), 3U);
}

TEST(TrainingFlag, IsTrueInABackwardHalfWithFetchesOfItsOwn) {
  Flagged f;
  (void)f.manager.run_forward(*f.session, {f.loss}, f.feeds());
  const auto fetched = f.manager.run_backward(*f.session, std::vector<std::vector<Value>>{{f.flag}, {f.loss}});
  EXPECT_TRUE(fetched[0][0].item<bool>());
  (void)f.manager.run_forward(*f.session, {f.loss}, f.feeds(false));
  EXPECT_FALSE(f.manager.run_backward(*f.session, std::vector<std::vector<Value>>{{f.flag}})[0][0].item<bool>());
  EXPECT_EQ(f.session->completed_cycles(), 2U);
}

TEST(TrainingFlag, MovingAveragesFollowIt) {
  Flagged f;
  const auto averages = [&] {
    const HostTensor tensor = f.session->read(f.average);
    return std::vector<float>(tensor.values<float>().begin(), tensor.values<float>().end());
  };
  (void)f.session->run({f.loss}, f.feeds(), {.targets = f.graph.operations(kUpdateOperations)});
  EXPECT_EQ(averages(), (std::vector<float>{0, 0, 0, 0}));
  (void)f.of_cycle(false);
  EXPECT_EQ(averages(), (std::vector<float>{0, 0, 0, 0}));
  f.session->initialize();
  (void)f.of_cycle();
  EXPECT_EQ(averages(), (std::vector<float>{1, 2, 3, 4}));
}

TEST(TrainingFlag, AFeedSaysOtherwiseForItsOwnRunAlone) {
  Flagged f;
  const auto& training = f.manager.training_operations();
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(f.of_run({}));
    EXPECT_TRUE(f.of_run({}, true));
    EXPECT_FALSE(f.of_run({}, false));
    EXPECT_FALSE(f.of_run({}));
    EXPECT_FALSE(f.of_run(training, false));
    EXPECT_TRUE(f.of_run(training));
    EXPECT_TRUE(f.of_run(training, true));
    EXPECT_FALSE(f.of_cycle(false));
    EXPECT_TRUE(f.of_cycle());
    EXPECT_TRUE(f.of_cycle(true));
    // Each is compiled once.
    EXPECT_EQ(f.session->statistics().programs_kept, 9);
  }
}

TEST(TrainingFlag, IsPlannedAsItRuns) {
  Flagged f;
  const std::vector<Operation>& training = f.manager.training_operations();
  const FeedTypes types = {{f.x, Shape{4}}};
  EXPECT_TRUE(f.session->plan({f.loss}, types, {.targets = training}).fits);
  EXPECT_TRUE(f.manager.plan(*f.session, {f.loss}, types).fits);
  EXPECT_TRUE(f.session->plan({f.flag}).fits);
  const auto programs = f.session->statistics().programs_kept;
  (void)f.session->run({f.loss}, f.feeds(), {.targets = training});
  (void)f.manager.run_full_cycle(*f.session, {f.loss}, f.feeds());
  EXPECT_EQ(f.session->statistics().programs_kept, programs);
  EXPECT_TRUE(f.manager.plan(*f.session, {f.loss}, {{f.x, Shape{4}}, {f.flag, false}}).fits);
}

TEST(TrainingFlag, IsFalseForInitialValues) {
  Graph graph;
  const Value start = variable("start", cast(graph.training(), Dtype::f32) + 1.0F);
  const Value trained = variable("trained", fill(graph, {}, 1));
  (void)minimize(Sgd{}, trained * start);
  Session session(graph, {.threads = 1});
  session.initialize();
  EXPECT_EQ(session.read(start).item<float>(), 1.0F);
}

TEST(TrainingFlag, OneThatIsMadeAfterPlacesHaveBeenGivenServesAsWell) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  Session session(graph, {.threads = 1});
  session.initialize();
  const HostTensor data = HostTensor::of<float>({2}, {1, 2});
  const Value y = x * 2.0F;
  (void)session.run({y}, {{x, data}});
  const Value dropped = dropout(y, {.rate = 0.5F});
  const auto fetched = session.run({y, dropped}, {{x, data}});
  EXPECT_TRUE(bitwise_equal(fetched[0], fetched[1]));
  EXPECT_FALSE(session.run({graph.training()}, {})[0].item<bool>());
}

TEST(TrainingFlag, TrainsALoadedGraphAlike) {
  Flagged f;
  Graph loaded;
  load_graph_text(loaded, graph_text(f.graph));
  Session session(loaded, {.threads = 1});
  session.initialize();
  const Feeds feeds = {{loaded.find("x").output(), f.data}};
  const Value loss = loaded.node(f.loss.node().id()).output();
  std::vector<Operation> training = loaded.operations(kTrainingOperations);
  for (const Operation& update : loaded.operations(kUpdateOperations)) training.push_back(update);
  for (int step = 0; step < 3; ++step) {
    const auto of_loaded = session.run({loss, loaded.training()}, feeds, {.targets = training});
    const auto of_first = f.manager.run_full_cycle(*f.session, {f.loss, f.flag}, f.feeds());
    EXPECT_TRUE(bitwise_equal(of_loaded[0], of_first[0]));
    EXPECT_TRUE(of_loaded[1].item<bool>() && of_first[1].item<bool>());
  }
  EXPECT_TRUE(bitwise_equal(session.read(loaded.find("average").output()), f.session->read(f.average)));
}

TEST(TrainingFlag, IsNotCalledFedWhereItIsNot) {
  Flagged f;
  EXPECT_THAT(([&] { (void)f.session->run({f.loss}, {}); }),
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("placeholder 'x'"), HasSubstr("fed:     nothing"))));
  EXPECT_THAT(([&] {
                (void)f.session->run({f.loss}, {{f.flag, true}});
              }),
              ThrowsMessage<ArgumentError>(HasSubstr("fed:     'training' bool[]")));
}

}  // namespace
}  // namespace sectionflow::testing
