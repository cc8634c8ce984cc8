// The primary test of swapping: training gives the same bits with and without it.

#include <gtest/gtest.h>

#include <memory>

#include "examples/models/zoo.h"
#include "swap/lms.h"
#include "tests/support/training_case.h"

namespace sectionflow {
namespace {

using namespace testing;

struct Model {
  const char* name;
  ZooOptions options;
  std::int64_t batch;
};

/// The model, edited by Lms if `lms` is given; `result` gets what it did.
TrainingCase case_of(const Model& model, const LmsOptions* lms, LmsResult* result = nullptr) {
  const ZooModel zoo = zoo_model(model.name, model.options);
  return {model.name, [=](Graph& graph, GraphSectionManager& manager) {
            const TrainableModel net = zoo.build(graph, manager);
            if (lms != nullptr) {
              const LmsResult found = Lms(*lms).run(graph);
              if (result != nullptr) *result = found;
            }
            const auto batches = std::make_shared<std::map<std::int64_t, Batch>>();
            const auto feeds = [=](std::int64_t step, FeedStore&) {
              const auto [batch, is_new] = batches->try_emplace(step);
              if (is_new) batch->second = zoo.batch({.batch = model.batch, .seed = 3, .step = step});
              return net.feeds(batch->second);
            };
            // The loss is evaluated between steps too: that must train nothing, and swaps must not bring updates along.
            return TrainingNet{net.loss, feeds, {net.loss}};
          }};
}

const std::vector<Model>& models() {
  static const std::vector<Model> all = {
      {"mnist_cnn", {.optimizer = Adam{}, .image = 12, .width = 4}, 6},
      {"unet", {.image = 16, .width = 3}, 2},
      {"gpt", {.optimizer = Adam{}, .width = 16, .layers = 2, .heads = 2, .sequence = 8, .vocabulary = 19}, 3},
  };
  return all;
}

class LmsTraining : public ::testing::TestWithParam<int> {};

TEST_P(LmsTraining, GivesTheSameBits) {
  const Model& model = models()[static_cast<std::size_t>(GetParam())];
  const TrainingRecord plain = record_training(case_of(model, nullptr), How::whole);
  for (int mode = 0; mode <= 3; ++mode) {
    for (const bool threads : {false, true}) {
      const LmsOptions lms{.swapout_threshold = 2, .swapin_groupby = 2, .swapin_ahead = 1, .sync_mode = mode};
      LmsResult found;
      TrainOptions options;
      options.session.copy_threads = threads;
      options.poison = mode % 2 == 0;
      options.session.random_delays = threads ? 5 : 0;
      const TrainingRecord swapped = record_training(case_of(model, &lms, &found), How::whole, options);
      EXPECT_EQ(first_difference(plain, swapped), "") << model.name << " mode " << mode << " threads " << threads;
      EXPECT_EQ(swapped.complaints, std::vector<std::string>()) << model.name << " mode " << mode;
      EXPECT_GT(found.num_swap_outs, 3);
      EXPECT_GE(found.num_swap_ins, found.num_swap_outs);
    }
  }
}

TEST_P(LmsTraining, GivesTheSameBitsWithSerializedLevels) {
  const Model& model = models()[static_cast<std::size_t>(GetParam())];
  const LmsOptions lms{
      .swapout_threshold = 3, .swapin_groupby = 0, .swapin_ahead = 2, .sync_mode = 3, .serialization = {"2:"}};
  LmsResult found;
  const TrainOptions options{.steps = 6};
  EXPECT_EQ(first_difference(record_training(case_of(model, nullptr), How::whole, options),
                             record_training(case_of(model, &lms, &found), How::whole, options)),
            "");
  EXPECT_GT(found.num_serialization_edges, 10);
}

INSTANTIATE_TEST_SUITE_P(Models, LmsTraining, ::testing::Values(0, 1, 2), [](const auto& test) {
  return std::string(models()[static_cast<std::size_t>(test.param)].name);
});

/// The training program of a model as Session::plan reports it.
ProgramReport plan_of(const Model& model, const LmsOptions* lms, const SessionOptions& options = {}) {
  const ZooModel zoo = zoo_model(model.name, model.options);
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainableModel net = zoo.build(graph, manager);
  const auto training = manager.training_operations();
  if (lms != nullptr) Lms(*lms).run(graph);
  Session session(graph, options);
  const Batch batch = zoo.batch({.batch = model.batch});
  return session.plan({net.loss}, types_of(net.feeds(batch)), {.targets = training});
}

TEST(LmsMemory, SwappingTakesLessDeviceMemory) {
  const Model model{"unet", {.image = 32, .width = 8}, 4};
  const LmsOptions lms{.swapout_threshold = 3, .swapin_groupby = 0, .swapin_ahead = 1, .sync_mode = 3};
  const ProgramReport plain = plan_of(model, nullptr), swapped = plan_of(model, &lms);
  EXPECT_EQ(plain.host_peak_bytes, 0U);
  EXPECT_GT(swapped.host_peak_bytes, 0U);
  EXPECT_LT(swapped.planned_peak_bytes, plain.planned_peak_bytes * 8 / 10)
      << swapped.planned_peak_bytes << " of " << plain.planned_peak_bytes;
}

TEST(LmsMemory, APlanIsTheSameEveryTime) {
  const LmsOptions lms{.swapout_threshold = 2, .swapin_groupby = 0, .swapin_ahead = 3};
  const ProgramReport first = plan_of(models()[1], &lms), second = plan_of(models()[1], &lms);
  EXPECT_EQ(first.planned_peak_bytes, second.planned_peak_bytes);
  EXPECT_EQ(first.host_peak_bytes, second.host_peak_bytes);
}

TEST(LmsMemory, AnEditAfterTrainingHasBegunIsHonoured) {
  const Model& model = models()[0];
  const ZooModel zoo = zoo_model(model.name, model.options);
  const auto losses = [&](bool edits) {
    Graph graph;
    GraphSectionManager manager(graph);
    const TrainableModel net = zoo.build(graph, manager);
    const RunOptions training{.targets = manager.training_operations()};
    Session session(graph, {.threads = 2, .check_schedules = true});
    session.initialize();
    std::vector<float> found;
    for (int step = 0; step < 6; ++step) {
      const LmsOptions lms{.swapout_threshold = 2, .swapin_groupby = 0, .swapin_ahead = 1};
      if (edits && step == 3) Lms(lms).run(graph);
      const Batch batch = zoo.batch({.batch = model.batch, .step = step});
      auto [loss] = session.run({net.loss}, net.feeds(batch), training);
      found.push_back(loss.template item<float>());
      const std::size_t on_host = session.plan({net.loss}, types_of(net.feeds(batch)), training).host_peak_bytes;
      EXPECT_EQ(on_host > 0, edits && step >= 3) << step;
    }
    return found;
  };
  EXPECT_EQ(losses(true), losses(false));
}

}  // namespace
}  // namespace sectionflow
