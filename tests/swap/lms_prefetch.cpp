// Parameters that are found by simulation have most swap-ins begin ahead of their readers, beside computing.

#include <gtest/gtest.h>

#include <algorithm>

#include "examples/models/zoo.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "runtime/engine.h"
#include "schedule/program.h"
#include "swap/lms.h"
#include "swap/lms_simulator.h"
#include "tests/support/contains.h"

namespace sectionflow {
namespace {

using testing_support::contains;

struct TunedModel {
  const char* name;
  ZooOptions options;
  std::int64_t batch;
};

const std::vector<TunedModel>& tuned_models() {
  static const std::vector<TunedModel> all = {
      {"mnist_resnet", {.optimizer = Adam{}}, 50},
      {"resnet50", {.optimizer = Momentum{}}, 8},
      {"unet", {.image = 64, .width = 8}, 2},
  };
  return all;
}

/// A model in a graph of its own, and the bytes that its simulation takes without swaps.
struct TunedCase {
  explicit TunedCase(const TunedModel& of)
      : zoo(zoo_model(of.name, of.options)), net(zoo.build(graph, manager)), batch(of.batch) {}

  LmsOptions options(int percent) const {
    LmsOptions counted;
    counted.batch_size = batch;
    const LmsGraph view(graph, counted);
    const LmsLevels levels = lms_levels(graph);
    LmsLog log(false, 1);
    LmsSimulator simulator(view, levels, log, SIZE_MAX, SIZE_MAX);
    const auto whole = static_cast<double>(simulator.simulate({levels.count(), 1, 0, 0}).peak_bytes);
    const double left = whole * percent / 100 / 0.9;
    counted.autotune_gpu_mem = (left + static_cast<double>(view.parameter_bytes())) / (1024.0 * 1024.0 * 1024.0);
    return counted;
  }

  Graph graph;
  GraphSectionManager manager{graph};
  ZooModel zoo;
  TrainableModel net;
  std::int64_t batch;
};

class TunedLms : public ::testing::TestWithParam<int> {};

TEST_P(TunedLms, HasSwapInsBeginAfterAControlOperation) {
  const TunedModel& model = tuned_models()[static_cast<std::size_t>(GetParam())];
  int prefetching = 0;
  for (const int percent : {70, 60, 50}) {
    TunedCase built(model);
    const LmsResult result = Lms(built.options(percent)).run(built.graph);
    ASSERT_TRUE(result.tuned && result.fits && !result.not_necessary) << percent;
    if (result.sync_mode >= 2) continue;
    ++prefetching;
    EXPECT_GT(2 * result.num_prefetched, result.num_swap_ins) << percent << " %, ahead " << result.swapin_ahead;
    EXPECT_LT(result.swapin_ahead, result.num_levels);
    const std::string text =
        text_of(result.num_prefetched, " of ", result.num_swap_ins, " swap-ins begin after a control operation");
    EXPECT_TRUE(std::any_of(result.log.begin(), result.log.end(),
                            [&](const std::string& line) { return contains(line, text); }));
  }
  EXPECT_GT(prefetching, 0);
}

/// Of the steps that copy in, those that begin before the compute step just before their first reader.
double share_that_begins_ahead(const Schedule& schedule) {
  int copies = 0, ahead = 0;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    if (schedule.steps[i].kind != StepKind::copy_in) continue;
    const Operand copy = schedule.steps[i].outputs[0];
    int computed = 0;
    for (std::size_t k = i + 1; k < schedule.steps.size(); ++k) {
      const Step& step = schedule.steps[k];
      if (std::find(step.inputs.begin(), step.inputs.end(), copy) != step.inputs.end()) break;
      computed += step.kind == StepKind::compute ? 1 : 0;
    }
    ++copies;
    ahead += computed > 0 ? 1 : 0;
  }
  return copies == 0 ? 0 : static_cast<double>(ahead) / copies;
}

TEST_P(TunedLms, HasCopiesBesideComputingInTheSchedule) {
  const TunedModel& model = tuned_models()[static_cast<std::size_t>(GetParam())];
  TunedCase built(model);
  const LmsResult result = Lms(built.options(70)).run(built.graph);
  ASSERT_LT(result.sync_mode, 2);
  Session session(built.graph, {.copy_threads = true, .threads = 1});
  const Batch batch = built.zoo.batch({.batch = model.batch});
  const Program& program = engine(session).whole_program({built.net.loss}, types_of(built.net.feeds(batch)),
                                                         {.targets = built.manager.training_operations()});
  EXPECT_GT(share_that_begins_ahead(program.schedule), 0.5);
}

INSTANTIATE_TEST_SUITE_P(Models, TunedLms, ::testing::Values(0, 1, 2), [](const auto& test) {
  return std::string(tuned_models()[static_cast<std::size_t>(test.param)].name);
});

/// What the ancestor's search names: the largest that a bisection over all levels meets.
int bisected_ahead(LmsSimulator& simulator, LmsParameters parameters, int num_levels) {
  int left = 1, right = num_levels, best = 0;
  while (left <= right) {
    parameters.ahead = left + (right - left) / 2;
    if (simulator.simulate(parameters).fits) {
      best = parameters.ahead;
      left = best + 1;
    } else {
      right = parameters.ahead - 1;
    }
  }
  return best;
}

TEST(LmsAhead, IsTheOneOfTheAncestorsSearch) {
  for (const TunedModel& model : tuned_models()) {
    for (const int percent : {70, 50}) {
      TunedCase built(model);
      const LmsOptions options = built.options(percent);
      const LmsGraph view(built.graph, options);
      const LmsLevels levels = lms_levels(built.graph);
      LmsLog log(false, 1);
      TunedCase edited(model);
      const LmsResult result = Lms(options).run(edited.graph);
      if (result.sync_mode >= 2) continue;
      LmsSimulator simulator(view, levels, log, result.budget_bytes, SIZE_MAX);
      EXPECT_EQ(result.swapin_ahead,
                bisected_ahead(simulator, {result.swapout_threshold, 1, 0, result.sync_mode}, levels.count()))
          << model.name << " " << percent << " %";
    }
  }
}

// ---- The device that is asked for its memory.

LmsResult searched(const LmsOptions& options) {
  Graph graph;
  const Value x = placeholder(graph, "x", {64, 64});
  Value y = x;
  for (int i = 0; i < 6; ++i) y = y * variable(text_of("v", i), fill(graph, {64, 64}, 1));
  return Lms(options).run(graph);
}

constexpr std::size_t kParameterBytes = std::size_t{6} * 64 * 64 * 4;

TEST(LmsMemoryOfTheDevice, IsTheLimitOfTheSessionToCome) {
  const LmsResult result = searched({.device = cpu(), .device_memory = 4_MiB});
  EXPECT_EQ(result.parameter_bytes, kParameterBytes);
  EXPECT_EQ(result.budget_bytes, static_cast<std::size_t>(0.9 * static_cast<double>(4_MiB - kParameterBytes)));
}

TEST(LmsMemoryOfTheDevice, IsThatOfTheBestDeviceByItself) {
  Graph graph;
  const Session session(graph, {.device = best_device()});
  const std::size_t limit = session.statistics().bytes_limit;
  const auto wanted = 0.9 * static_cast<double>(limit - kParameterBytes);
  // What a GPU has free moves a little.
  EXPECT_NEAR(static_cast<double>(searched({}).budget_bytes), wanted, wanted / 100);
}

TEST(LmsMemoryOfTheDevice, IsAskedOfThatDeviceAlone) {
  const int beyond = 1000;
  Graph graph;
  const Value y = relu(placeholder(graph, "x", {4, 4}));
  const int nodes = graph.num_nodes();
  EXPECT_THROW(Lms({.device = cuda(beyond)}).run(graph), DeviceError);
  EXPECT_EQ(graph.num_nodes(), nodes);
  // Not where the user says what there is, or nothing is searched for.
  EXPECT_NO_THROW(Lms({.device = cuda(beyond), .autotune_gpu_mem = 1}).run(graph));
  EXPECT_NO_THROW(
      Lms({.swapout_threshold = 1, .swapin_groupby = 0, .swapin_ahead = 1, .device = cuda(beyond)}).run(graph));
  EXPECT_TRUE(y.valid());
}

}  // namespace
}  // namespace sectionflow
