// The example that PartialFlow's documentation promises, on its four-section network.

#include <gtest/gtest.h>

#include <set>

#include "examples/models/mnist_resnet.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "tests/support/log_lines.h"
#include "tests/support/training_case.h"

namespace sectionflow::testing {
namespace {

constexpr std::int64_t kBatch = 2;

class FourSectionMnist : public ::testing::Test {
 protected:
  FourSectionMnist()
      : manager_(graph_),
        net_(build_mnist_resnet(graph_, manager_, {.verbose = true})),
        session_(graph_, {.check_schedules = true}) {
    session_.initialize();
    images_ = random_images({kBatch, 28, 28, 1}, 1, 0);
    labels_ = random_classes(kBatch, 10, 1, 0);
  }

  Feeds feeds() const { return {{net_.images, images_}, {net_.labels, labels_}, {net_.is_training, true}}; }

  Graph graph_;
  GraphSectionManager manager_;
  MnistResnet net_;
  Session session_;
  HostTensor images_, labels_;
};

std::set<std::string> names(const std::vector<Value>& values) {
  std::set<std::string> result;
  for (Value value : values) result.insert(value.name());
  return result;
}

TEST_F(FourSectionMnist, SectionTwoFeedsOnExactlyTheGradientTheOutputOfSectionOneAndIsTraining) {
  const auto& feed = manager_.section(2).tensors_to_feed();
  ASSERT_EQ(feed.size(), 3U);
  EXPECT_EQ(feed[0], net_.is_training);
  EXPECT_EQ(feed[0].shape(), Shape{});
  EXPECT_EQ(feed[1].shape(), (Shape{kDynamic, 14, 14, 32}));
  EXPECT_EQ(feed[1].node().group(), manager_.section(1).group());
  EXPECT_EQ(feed[2].shape(), (Shape{kDynamic, 7, 7, 64}));
  EXPECT_EQ(feed[2].node().group(), manager_.section(3).group());
}

TEST_F(FourSectionMnist, SectionThreeCachesExactlyThatGradient) {
  const auto& cache = manager_.section(3).tensors_to_cache();
  ASSERT_EQ(cache.size(), 1U);
  EXPECT_EQ(cache[0], manager_.section(2).tensors_to_feed()[2]);
}

TEST_F(FourSectionMnist, IncomingTensorsAreTheOutputsOfTheSectionBeforeAndTheFeeds) {
  EXPECT_EQ(names(manager_.section(0).incoming()), (std::set<std::string>{"images", "is_training"}));
  EXPECT_EQ(names(manager_.section(1).incoming()), (std::set<std::string>{"is_training", "scale0/block_2/add"}));
  EXPECT_EQ(names(manager_.section(2).incoming()), (std::set<std::string>{"is_training", "scale1/block_2/add"}));
  EXPECT_EQ(names(manager_.section(3).incoming()), (std::set<std::string>{"labels", "scale2/block_4/add"}));
}

TEST_F(FourSectionMnist, SectionsKnowTheirVariablesAndUpdates) {
  // Kernels; scale and shift of each norm: stem 1 + 2, then 2 + 4 a block, and a shortcut where the size changes.
  const int trained[] = {3 + 3 * 6, 3 * 6 + 1, 5 * 6 + 1, 2};
  const int norms[] = {7, 6, 10, 0};
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(manager_.section(k).values(kTrainableVariables).size(), static_cast<std::size_t>(trained[k])) << k;
    EXPECT_EQ(manager_.section(k).operations(kUpdateOperations).size(), static_cast<std::size_t>(2 * norms[k])) << k;
    const std::size_t step_counter = k == 0 ? 1 : 0;
    EXPECT_EQ(manager_.section(k).training_operations().size(), trained[k] + 2 * norms[k] + step_counter) << k;
  }
}

TEST_F(FourSectionMnist, FullCycleLogsThePassesInOrderWithoutASecondForwardOverTheLastSection) {
  testing_support::LogLines log;
  (void)manager_.run_full_cycle(session_, {net_.loss}, feeds());
  const std::vector<std::string> expected = {
      "Running forward pass on section 0",  "Running forward pass on section 1",  "Running forward pass on section 2",
      "Running forward pass on section 3",  "Running backward pass on section 3", "Running forward pass on section 2",
      "Running backward pass on section 2", "Running forward pass on section 1",  "Running backward pass on section 1",
      "Running forward pass on section 0",  "Running backward pass on section 0"};
  EXPECT_EQ(log.lines, expected);
}

TEST_F(FourSectionMnist, ForwardRunsTwiceButOnceForTheLastSectionBackwardOnceInputsAndUpdatesOnce) {
  constexpr int kCycles = 3;
  for (int cycle = 0; cycle < kCycles; ++cycle) (void)manager_.run_full_cycle(session_, {net_.loss}, feeds());
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(manager_.runs(k).forward, kCycles * (k == 3 ? 1 : 2)) << k;
    EXPECT_EQ(manager_.runs(k).backward, kCycles) << k;
  }
  for (const auto& section : manager_.sections()) {
    int twice = 0;
    for (Operation operation : section->operations()) {
      const std::int64_t executions = session_.executions(operation.node());
      if (operation.node().op().is_constant() || operation.node().op().recompute == Recompute::seeded) continue;
      EXPECT_GE(executions, kCycles) << operation.name();
      EXPECT_LE(executions, kCycles * (section->index() == 3 ? 1 : 2)) << operation.name();
      twice += executions == 2 * kCycles ? 1 : 0;
    }
    EXPECT_EQ(twice > 0, section->index() != 3) << section->index();
  }
  for (Operation operation : manager_.training_operations()) {
    EXPECT_EQ(session_.executions(operation.node()), kCycles) << operation.name();
  }
  EXPECT_EQ(session_.executions(net_.images.node()), kCycles);
  EXPECT_EQ(session_.executions(net_.labels.node()), kCycles);
  EXPECT_EQ(session_.completed_cycles(), static_cast<std::uint64_t>(kCycles));
}

TEST_F(FourSectionMnist, OperationsThatOnlyLeadToACachedBorderAreNotRepeated) {
  (void)manager_.run_full_cycle(session_, {net_.loss}, feeds());
  // The last addition of a scale makes the border tensor; the convolution before it feeds nothing else.
  EXPECT_EQ(session_.executions(graph_.find("scale0/block_2/add")), 1);
  EXPECT_EQ(session_.executions(graph_.find("scale0/block_2/conv2/conv2d")), 1);
  EXPECT_EQ(session_.executions(graph_.find("scale0/block_2/conv1/conv2d")), 2);
}

TEST_F(FourSectionMnist, FetchesAreEvaluatedWhereThePageSays) {
  EXPECT_EQ(manager_.evaluated_in(net_.images), kForwardPass);
  EXPECT_EQ(manager_.evaluated_in(net_.loss), 3);
  EXPECT_EQ(manager_.evaluated_in(net_.accuracy), 3);
  EXPECT_EQ(manager_.evaluated_in(graph_.find("scale1/block/add").output()), 1);
  EXPECT_EQ(manager_.evaluated_in(manager_.section(3).tensors_to_cache()[0]), 3);
  const Value variable = graph_.values(kTrainableVariables).front();
  EXPECT_EQ(manager_.evaluated_in(variable), kForwardPass);
}

TEST_F(FourSectionMnist, BatchNormStatisticsAreNeitherFedNorCachedTensors) {
  for (const auto& section : manager_.sections()) {
    for (const auto* tensors : {&section->tensors_to_feed(), &section->tensors_to_cache()}) {
      for (Value value : *tensors) {
        EXPECT_FALSE(value.node().op().name == "batch_norm" && value.output() > 0) << value.name();
      }
    }
  }
}

TEST_F(FourSectionMnist, PlanIsTightAndSectionsSaveMemory) {
  const FeedTypes types = {{net_.images, Shape{250, 28, 28, 1}}, {net_.labels, Shape{250}}, {net_.is_training, true}};
  const ProgramReport whole = session_.plan({net_.loss}, types, {.targets = manager_.training_operations()});
  const ProgramReport sections = manager_.plan(session_, {net_.loss}, types);
  EXPECT_LE(static_cast<double>(whole.planned_peak_bytes), 1.02 * static_cast<double>(whole.lower_bound_bytes));
  EXPECT_LE(static_cast<double>(sections.planned_peak_bytes), 1.02 * static_cast<double>(sections.lower_bound_bytes));
  EXPECT_LT(sections.planned_peak_bytes, whole.planned_peak_bytes * 7 / 10);
  EXPECT_EQ(whole.recomputed_operations, 0);
  EXPECT_GT(sections.recomputed_operations, 0);
}

}  // namespace
}  // namespace sectionflow::testing
