#include "compare/compare_strategies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/bytes.h"
#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "runtime/engine.h"
#include "tests/support/random_offloads.h"
#include "tests/support/schedule_editing.h"
#include "tests/support/tiny_model.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;

CompareOptions options_of(std::int64_t steps, std::size_t device_memory = 16_MiB) {
  return {.model = "tiny",
          .steps = steps,
          .session = {.device_memory = device_memory, .threads = 1, .seed = 3, .check_schedules = true},
          .batch = [](std::int64_t step) { return tiny_batch(step); }};
}

TEST(CompareStrategies, SectionsAreIdenticalToTheWholeGraph) {
  const Comparison comparison = compare_strategies(
      {tiny_strategy("whole", 0), tiny_strategy("sections:1", 1), tiny_strategy("sections:3", 3)}, options_of(4));
  ASSERT_EQ(comparison.strategies.size(), 3u);
  for (const StrategyResult& result : comparison.strategies) {
    EXPECT_TRUE(result.fits) << result.name;
    EXPECT_TRUE(result.identical) << result.name << ": " << result.difference;
    EXPECT_EQ(result.difference, "");
    EXPECT_EQ(result.measured_peak_bytes, result.planned_peak_bytes) << result.name;
    EXPECT_GE(result.planned_peak_bytes, result.lower_bound_bytes);
    EXPECT_GT(result.step_ms.median, 0);
    EXPECT_LE(result.step_ms.p25, result.step_ms.median);
    EXPECT_LE(result.step_ms.median, result.step_ms.p75);
  }
  EXPECT_EQ(comparison.strategies[0].ratio, 1);
  EXPECT_EQ(comparison.strategies[0].recomputed_ops, 0);
  EXPECT_GT(comparison.strategies[2].recomputed_ops, 0);
  EXPECT_LT(comparison.strategies[2].planned_peak_bytes, comparison.strategies[0].planned_peak_bytes);
  EXPECT_TRUE(comparison.all_identical());
  EXPECT_THAT(comparison.text(), testing::Not(HasSubstr(" no\n")));
}

/// Compares the whole graph with three sections whose schedule of a cycle is edited. `edit` says whether it found its
/// place.
class PlantedFault : public testing::Test {
 protected:
  using Edit = std::function<bool(const Graph&, Schedule&)>;

  void compare(const Edit& edit) {
    int planted = 0;
    CompareOptions options = options_of(3);
    options.on_session = [&](const Strategy& strategy, Session& session) {
      if (strategy.whole_graph) return;
      engine(session).set_schedule_editor([&, graph = &session.graph()](Schedule& schedule) {
        // The program of the initial values has one pass.
        if (schedule.passes.size() > 1 && edit(*graph, schedule)) ++planted;
      });
    };
    const Comparison comparison = compare_strategies({tiny_strategy("whole", 0), tiny_strategy("faulty", 3)}, options);
    ASSERT_GT(planted, 0) << "the fault found no place";
    EXPECT_TRUE(comparison.strategies[0].identical);
    result_ = comparison.strategies[1];
    EXPECT_FALSE(result_.identical);
    EXPECT_NE(result_.difference, "");
    EXPECT_THAT(comparison.text(), HasSubstr("no\n    " + result_.difference));
    const auto json = nlohmann::json::parse(comparison.json());
    EXPECT_EQ(json.at("strategies").at(0).at("identical"), true);
    EXPECT_EQ(json.at("strategies").at(1).at("identical"), false);
  }

  StrategyResult result_;
};

TEST_F(PlantedFault, StatisticsThatAreUpdatedTwiceAreFound) {
  compare([](const Graph& graph, Schedule& schedule) {
    const StepIndex step = find_step(schedule, computes(graph, "update_moving_average"));
    if (step >= 0) repeat_step(schedule, step);
    return step >= 0;
  });
  EXPECT_THAT(result_.difference, testing::ContainsRegex("variable 'batch_norm.*/moving_(mean|variance)' differs"));
}

TEST_F(PlantedFault, AStaleWeightInARecomputationIsFound) {
  compare([](const Graph& graph, Schedule& schedule) {
    const StepIndex step = find_step(schedule, computes(graph, schedule, "conv2d", Pass::Kind::recompute));
    if (step < 0) return false;
    Operand& weight = schedule.steps[static_cast<std::size_t>(step)].inputs[1];
    // Another variable of the same shape: a slot of the optimiser.
    weight.index = graph.find(graph.node(weight.index).name() + "/adam_m").id();
    return true;
  });
  EXPECT_THAT(result_.difference, HasSubstr("differs"));
}

TEST_F(PlantedFault, ASkippedPartOfAGradientIsFound) {
  compare([](const Graph& graph, Schedule& schedule) {
    const StepIndex step = find_step(schedule, computes(graph, "add_n"));
    if (step < 0) return false;
    auto& inputs = schedule.steps[static_cast<std::size_t>(step)].inputs;
    inputs[1] = inputs[0];
    return true;
  });
  EXPECT_THAT(result_.difference, HasSubstr("differs"));
}

TEST_F(PlantedFault, ADroppedBorderTensorIsFound) {
  compare([](const Graph&, Schedule& schedule) {
    bool any = false;
    for (Buffer& buffer : schedule.buffers) {
      const bool crosses = buffer.life.first < schedule.half && buffer.life.last >= schedule.half;
      if (!crosses || !buffer.value.valid() || buffer.value.shape().rank() != 4) continue;
      buffer.life.last = schedule.half - 1;
      any = true;
    }
    return any;
  });
  EXPECT_THAT(result_.difference, HasSubstr("differs"));
}

TEST_F(PlantedFault, AMissingUpdateIsFound) {
  compare([](const Graph& graph, Schedule& schedule) {
    const StepIndex step = find_step(schedule, computes(graph, "apply_adam"));
    if (step >= 0) drop_step(schedule, step);
    return step >= 0;
  });
  EXPECT_THAT(result_.difference, HasSubstr("differs"));
}

TEST(CompareStrategies, TrainingThatChangesNothingIsNotIdentical) {
  const auto plain = [](Graph& graph, GraphSectionManager& manager) {
    const Value images = placeholder(graph, "images", {kDynamic, 8, 8, 3});
    Value loss;
    {
      const auto section = manager.new_section();
      loss = mean(dense(reduce_mean(images, {.axes = {1, 2}}), {.features = 4}));
    }
    manager.add_training_ops(Sgd{.learning_rate = 0.0F}, loss);
    manager.prepare_training();
    return TrainableModel{loss, [=](const Batch& batch) { return Feeds{{images, batch.images}}; }};
  };
  const Comparison comparison =
      compare_strategies({{.name = "idle", .whole_graph = true, .build = plain}}, options_of(2));
  EXPECT_FALSE(comparison.strategies[0].identical);
  EXPECT_EQ(comparison.strategies[0].difference, "training has changed nothing");
}

TEST(CompareStrategies, AnotherLearningRateIsNotIdentical) {
  const Comparison comparison = compare_strategies(
      {tiny_strategy("whole", 0), tiny_strategy("other", 3, Adam{.learning_rate = 1.0001e-2F})}, options_of(3));
  EXPECT_TRUE(comparison.strategies[0].identical);
  EXPECT_FALSE(comparison.strategies[1].identical);
  EXPECT_THAT(comparison.strategies[1].difference, HasSubstr("the loss of step 1 differs at element []: "));
}

TEST(CompareStrategies, AStrategyThatDoesNotFitIsReported) {
  const std::vector<Strategy> strategies = {tiny_strategy("whole", 0), tiny_strategy("sections:3", 3)};
  const Comparison roomy = compare_strategies(strategies, options_of(2));
  const std::size_t enough = roomy.strategies[1].planned_peak_bytes;
  ASSERT_LT(enough, roomy.strategies[0].planned_peak_bytes);
  const Comparison tight = compare_strategies(strategies, options_of(2, enough));
  EXPECT_FALSE(tight.strategies[0].fits);
  EXPECT_FALSE(tight.strategies[0].identical);
  EXPECT_EQ(tight.strategies[0].planned_peak_bytes, roomy.strategies[0].planned_peak_bytes);
  EXPECT_TRUE(tight.strategies[1].fits);
  EXPECT_TRUE(tight.strategies[1].identical) << "the first that fits is the measure";
  EXPECT_EQ(tight.strategies[1].ratio, 1);
  EXPECT_THAT(tight.strategies[0].misfit, HasSubstr(bytes_text(roomy.strategies[0].planned_peak_bytes)));
  EXPECT_THAT(tight.strategies[0].misfit, testing::Not(HasSubstr("\n")));
  EXPECT_THAT(tight.text(), HasSubstr("does not fit: " + tight.strategies[0].misfit));
  const Comparison none = compare_strategies(strategies, options_of(2, enough - 1));
  EXPECT_FALSE(none.strategies[0].fits || none.strategies[1].fits);
}

TEST(CompareStrategies, TheReferenceIsTrainedWithoutABudget) {
  const std::vector<Strategy> strategies = {tiny_strategy("whole", 0), tiny_strategy("sections:3", 3)};
  const Comparison roomy = compare_strategies(strategies, options_of(2));
  CompareOptions options = options_of(3, roomy.strategies[1].planned_peak_bytes);
  options.reference = tiny_strategy("whole", 0);
  const Comparison comparison = compare_strategies(strategies, options);
  ASSERT_TRUE(comparison.reference);
  EXPECT_TRUE(comparison.reference->fits);
  EXPECT_EQ(comparison.reference->planned_peak_bytes, roomy.strategies[0].planned_peak_bytes);
  EXPECT_EQ(comparison.reference->ratio, 1);
  ASSERT_EQ(comparison.strategies.size(), 2u);
  EXPECT_FALSE(comparison.strategies[0].fits);
  EXPECT_TRUE(comparison.strategies[1].identical) << comparison.strategies[1].difference;
  EXPECT_GT(comparison.strategies[1].ratio, 0);
  EXPECT_TRUE(comparison.device_limited);
  EXPECT_EQ(comparison.budgets.device, options.session.device_memory.bytes_of(0));
  EXPECT_THAT(comparison.text(), HasSubstr("whole, unlimited"));
  EXPECT_EQ(nlohmann::json::parse(comparison.json()).at("reference").at("name"), "whole");
}

TEST(CompareStrategies, ABudgetBelowTheVariablesFitsNothing) {
  CompareOptions options = options_of(2, 1024);
  options.reference = tiny_strategy("whole", 0);
  const Comparison comparison = compare_strategies({tiny_strategy("whole", 0)}, options);
  EXPECT_FALSE(comparison.strategies[0].fits);
  EXPECT_GT(comparison.strategies[0].planned_peak_bytes, 1024u);
  EXPECT_THAT(comparison.strategies[0].misfit, HasSubstr("1.00 KiB"));
}

/// Has values offloaded to the host and to disk at random.
Strategy swapping(const std::string& name, int num_sections) {
  Strategy strategy = tiny_strategy(name, num_sections);
  strategy.edit_session = [](Session& session) {
    engine(session).set_instruction_editor("test", [](InstructionList list, PlanningTools& tools) {
      return offload_at_random(list, tools, 5, 0.7, true);
    });
  };
  return strategy;
}

TEST(CompareStrategies, SwappingIsMeasured) {
  CompareOptions options = options_of(4);
  options.session.disk = 4_MiB;
  options.session.copy_threads = true;
  const Comparison comparison = compare_strategies({tiny_strategy("whole", 0), swapping("swapping", 0)}, options);
  const StrategyResult& plain = comparison.strategies[0];
  EXPECT_EQ(plain.bytes_out + plain.bytes_in + plain.host.planned_bytes + plain.disk.planned_bytes, 0u);
  EXPECT_EQ(plain.swaps.copy_seconds, 0);
  const StrategyResult& result = comparison.strategies[1];
  EXPECT_TRUE(result.identical) << result.difference;
  EXPECT_GT(result.bytes_out, 0u);
  EXPECT_EQ(result.bytes_out, result.bytes_in);
  EXPECT_GT(result.disk_bytes_out, 0u);
  EXPECT_GT(result.host.planned_bytes, 0u);
  EXPECT_EQ(result.host.measured_bytes, result.host.planned_bytes);
  EXPECT_EQ(result.disk.measured_bytes, result.disk.planned_bytes);
  EXPECT_EQ(result.measured_peak_bytes, result.planned_peak_bytes);
  EXPECT_GT(result.swaps.copy_seconds, 0);
  EXPECT_GE(result.swaps.hidden_share, 0);
  EXPECT_LE(result.swaps.hidden_share, 1);
  EXPECT_THAT(comparison.text(), AllOf(HasSubstr("host peak"), HasSubstr("hidden"), HasSubstr("to disk")));
}

TEST(CompareStrategies, VariablesOnTheHostAreThoseOfAllButTheReference) {
  CompareOptions options = options_of(3);
  options.reference = tiny_strategy("whole", 0);
  options.session.swap_variables = true;
  const Comparison comparison = compare_strategies({tiny_strategy("whole", 0)}, options);
  const StrategyResult &reference = *comparison.reference, &away = comparison.strategies[0];
  EXPECT_EQ(reference.bytes_in + reference.host.planned_bytes, 0u);
  EXPECT_GT(away.bytes_in, 0u);
  EXPECT_GT(away.host.planned_bytes, 0u);
  EXPECT_LT(away.planned_peak_bytes, reference.planned_peak_bytes);
  EXPECT_TRUE(away.identical) << away.difference;
  EXPECT_TRUE(comparison.swap_variables);
  EXPECT_THAT(comparison.limits(), HasSubstr(", variables in host memory"));
}

TEST(CompareStrategies, AStrategyThatCannotBeMadeDoesNotFit) {
  Strategy refusing = tiny_strategy("refusing", 0), failing = refusing;
  refusing.edit_graph = [](Graph&, const StrategySetting& setting) {
    EXPECT_EQ(setting.batch, 6);
    EXPECT_EQ(setting.device_memory, 16_MiB);
    throw ArgumentError("nothing fits\nnot even this", ErrorCode::lms_tuning);
  };
  const Comparison comparison = compare_strategies({refusing, tiny_strategy("whole", 0)}, options_of(2));
  EXPECT_FALSE(comparison.strategies[0].fits);
  EXPECT_EQ(comparison.strategies[0].misfit, "nothing fits");
  EXPECT_TRUE(comparison.strategies[1].identical);
  EXPECT_THAT(comparison.text(), HasSubstr("does not fit: nothing fits\n"));
  failing.edit_graph = [](Graph&, const StrategySetting&) { throw ArgumentError("a mistake"); };
  EXPECT_THROW(compare_strategies({failing}, options_of(2)), ArgumentError);
}

TEST(CompareStrategies, JsonHasEveryField) {
  CompareOptions options = options_of(3);
  std::vector<std::int64_t> rounds;
  options.on_round = [&](std::int64_t done) { rounds.push_back(done); };
  const Comparison comparison =
      compare_strategies({tiny_strategy("whole", 0), tiny_strategy("sections:2", 2)}, options);
  EXPECT_EQ(rounds, (std::vector<std::int64_t>{1, 2, 3}));
  const auto json = nlohmann::json::parse(comparison.json());
  EXPECT_EQ(json.at("model"), "tiny");
  EXPECT_EQ(json.at("batch"), 6);
  EXPECT_EQ(json.at("threads"), 1);
  EXPECT_EQ(json.at("swap_variables"), false);
  ASSERT_EQ(json.at("strategies").size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& row = json.at("strategies").at(i);
    const StrategyResult& result = comparison.strategies[i];
    EXPECT_EQ(row.at("name"), result.name);
    EXPECT_EQ(row.at("fits"), true);
    EXPECT_EQ(row.at("step_ms").at("median"), result.step_ms.median);
    EXPECT_EQ(row.at("step_ms").at("p25"), result.step_ms.p25);
    EXPECT_EQ(row.at("step_ms").at("p75"), result.step_ms.p75);
    EXPECT_EQ(row.at("ratio"), result.ratio);
    EXPECT_EQ(row.at("planned_peak_bytes"), result.planned_peak_bytes);
    EXPECT_EQ(row.at("measured_peak_bytes"), result.measured_peak_bytes);
    EXPECT_EQ(row.at("persistent_bytes"), result.persistent_bytes);
    EXPECT_EQ(row.at("lower_bound_bytes"), result.lower_bound_bytes);
    EXPECT_EQ(row.at("recomputed_ops"), result.recomputed_ops);
    EXPECT_EQ(row.at("identical"), true);
  }
}

TEST(CompareStrategies, NeedsStepsAndStrategies) {
  EXPECT_THROW(compare_strategies({tiny_strategy("whole", 0)}, options_of(1)), ArgumentError);
  EXPECT_THROW(compare_strategies({}, options_of(2)), ArgumentError);
}

TEST(FirstDifference, NamesWhatDiffers) {
  const auto state = [](float w, float loss) {
    TrainingState result;
    result.variables.emplace("w", HostTensor::scalar(w));
    result.variables.emplace("v", HostTensor::scalar(1.0F));
    result.losses.push_back(HostTensor::scalar(loss));
    return result;
  };
  EXPECT_EQ(first_difference(state(1, 2), state(1, 2)), "");
  EXPECT_EQ(first_difference(state(1, 2), state(1, 3)),
            "the loss of step 0 differs at element []: 2 (0x40000000) and 3 (0x40400000)");
  EXPECT_EQ(first_difference(state(1, 2), state(4, 2)),
            "variable 'w' differs at element []: 1 (0x3f800000) and 4 (0x40800000)");
  EXPECT_EQ(first_difference(state(0.0F, 2), state(-0.0F, 2)),
            "variable 'w' differs at element []: 0 (0x00000000) and -0 (0x80000000)");
  TrainingState missing = state(1, 2);
  missing.variables.erase("v");
  EXPECT_EQ(first_difference(state(1, 2), missing), "variable 'v' is missing");
  EXPECT_EQ(first_difference(missing, state(1, 2)), "the number of variables differs");
  missing.losses.clear();
  EXPECT_EQ(first_difference(state(1, 2), missing), "the number of losses differs");
}

}  // namespace
}  // namespace sectionflow
