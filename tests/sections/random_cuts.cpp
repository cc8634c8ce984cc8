// Random models with random cuts train to the same bytes as the whole graph; where they do not, the smallest model that
// shows it is found.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "runtime/engine.h"
#include "tests/support/layer_kinds.h"
#include "tests/support/schedule_editing.h"
#include "tests/support/shrink_spec.h"

namespace sectionflow::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing_support::computes;
using testing_support::find_step;
using testing_support::repeat_step;

constexpr std::uint64_t kSeeds = 300;
constexpr std::uint64_t kSeedsOfATest = 30;

class RandomCuts : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomCuts, TrainToTheBytesOfTheWholeGraph) {
  for (std::uint64_t seed = GetParam(); seed < GetParam() + kSeedsOfATest; ++seed) {
    const auto report = examine(random_spec(seed));
    if (report) ADD_FAILURE() << report->text();
  }
}
std::string first_seed(const ::testing::TestParamInfo<std::uint64_t>& info) {
  return "From" + std::to_string(info.param);
}
// MoreSeeds is of the label `long` (tests/CMakeLists.txt).
INSTANTIATE_TEST_SUITE_P(Seeds, RandomCuts, ::testing::Range<std::uint64_t>(1, 61, kSeedsOfATest), first_seed);
INSTANTIATE_TEST_SUITE_P(MoreSeeds, RandomCuts, ::testing::Range<std::uint64_t>(61, kSeeds + 1, kSeedsOfATest),
                         first_seed);

// ---- The models are what they should be.

/// How many of the seeds of the suite have what the test asks for.
template <class Test>
int seeds_with(const Test& test) {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) found += test(random_spec(seed)) ? 1 : 0;
  return found;
}

template <class Test>
int seeds_with_layer(const Test& test) {
  return seeds_with(
      [&](const TrainingSpec& spec) { return std::any_of(spec.layers.begin(), spec.layers.end(), test); });
}

/// The section of each layer by id; -1: outside.
std::map<int, int> sections_of(const TrainingSpec& spec) {
  std::map<int, int> sections;
  int opened = 0, current = -1;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.place == Place::section) current = opened++;
    if (layer.place == Place::outside) current = -1;
    sections[layer.id] = current;
  }
  return sections;
}

bool skips_a_section(const TrainingSpec& spec) {
  const auto sections = sections_of(spec);
  return std::any_of(spec.layers.begin(), spec.layers.end(), [&](const LayerSpec& layer) {
    const auto source = sections.find(layer.source);
    return source != sections.end() && source->second >= 0 && sections.at(layer.id) > source->second + 1;
  });
}

/// Whether forward nodes of several sections read one variable.
bool shares_across_sections(const TrainingSpec& spec) {
  Graph graph;
  GraphSectionManager manager(graph);
  (void)training_case(spec).build(graph, manager);
  std::map<Value, GroupId> first;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.phase() != Phase::model || node.group() == kNoGroup || !node.op().updated_inputs.empty()) continue;
    for (Value input : node.inputs()) {
      if (is_variable(input) && first.emplace(input, node.group()).first->second != node.group()) return true;
    }
  }
  return false;
}

bool updates_in_the_middle(const TrainingSpec& spec) {
  const auto sections = sections_of(spec);
  return std::any_of(spec.layers.begin(), spec.layers.end(), [&](const LayerSpec& layer) {
    const int section = sections.at(layer.id);
    return (layer.kind == "count" || layer.kind == "norm") && section > 0 && section < num_sections(spec) - 1;
  });
}

TEST(RandomSpecs, HaveEveryKindOfLayerAndEveryWayOfTrainingOften) {
  for (const LayerKind& kind : layer_kinds()) {
    EXPECT_GE(seeds_with_layer([&](const LayerSpec& layer) { return layer.kind == kind.name; }), 15) << kind.name;
  }
  for (const std::string& name : optimizer_names()) {
    EXPECT_GE(seeds_with([&](const TrainingSpec& spec) { return spec.optimizer == name; }), 15) << name;
  }
  for (int use = 0; use < 4; ++use) {
    EXPECT_GE(seeds_with([&](const TrainingSpec& spec) { return static_cast<int>(spec.gradients) == use; }), 15) << use;
  }
  EXPECT_GE(seeds_with([](const TrainingSpec& spec) { return spec.threads == 1; }), 100);
  EXPECT_GE(seeds_with([](const TrainingSpec& spec) { return spec.threads == 2; }), 100);
  for (bool TrainingSpec::*flag :
       {&TrainingSpec::smaller_last_batch, &TrainingSpec::feeds_rate, &TrainingSpec::counts_steps,
        &TrainingSpec::evaluates, &TrainingSpec::masks_loss, &TrainingSpec::ties_head, &TrainingSpec::prepares_images,
        &TrainingSpec::skips, &TrainingSpec::averages}) {
    EXPECT_GE(seeds_with([&](const TrainingSpec& spec) { return spec.*flag; }), 40);
  }
  for (const int count : {2, 3}) {
    EXPECT_GE(seeds_with([&](const TrainingSpec& spec) { return spec.micro_batches == count; }), 15) << count;
  }
}

TEST(RandomSpecs, HaveEveryKindOfCutOften) {
  EXPECT_GE(seeds_with(skips_a_section), 40);
  EXPECT_GE(seeds_with(shares_across_sections), 40);
  EXPECT_GE(seeds_with(updates_in_the_middle), 40);
  EXPECT_GE(seeds_with([](const TrainingSpec& spec) { return num_sections(spec) == 1; }), 15);
  EXPECT_GE(seeds_with([](const TrainingSpec& spec) { return num_sections(spec) >= 8; }), 15);
  EXPECT_GE(seeds_with([](const TrainingSpec& spec) { return spec.head == Place::outside; }), 15);
  EXPECT_GE(seeds_with_layer([](const LayerSpec& layer) { return layer.id > 1 && layer.place == Place::outside; }), 40);
  EXPECT_GE(seeds_with([](const TrainingSpec& spec) { return spec.layers[0].place == Place::outside; }), 40);
}

TEST(RandomSpecs, AreTheSameForTheSameSeed) {
  EXPECT_EQ(listing(random_spec(17)), listing(random_spec(17)));
  EXPECT_NE(listing(random_spec(17)), listing(random_spec(18)));
}

TEST(RandomSpecs, AreListedBelowTheirSections) {
  TrainingSpec spec{.seed = 4, .optimizer = "adam", .feeds_rate = true};
  spec.layers = {{.id = 1, .kind = "conv", .place = Place::section, .size = 3, .side = 3, .shared = 0},
                 {.id = 2, .kind = "noise", .option = 1},
                 {.id = 3, .kind = "add", .place = Place::outside, .source = 1}};
  spec.head = Place::section;
  EXPECT_EQ(listing(spec),
            "seed 4: images [3,4,4,2], 3 steps, 1 thread, adam, fed rate\n"
            "  section 0\n"
            "    1 conv, size 3, side 3, shared variables 0\n"
            "    2 noise #1\n"
            "  outside\n"
            "    3 add, with layer 1\n"
            "  section 1\n"
            "    head and loss\n");
}

// ---- A fault is found, described and made small.

/// Plants a fault into the schedules of training by sections, whose half is left alone.
ChangeOptions fault(const std::function<void(const Graph&, Schedule&)>& edit) {
  return [edit](TrainOptions& options) {
    options.on_session = [edit](How how, const Graph& graph, Session& session) {
      if (how != How::sections) return;
      engine(session).set_schedule_editor([edit, &graph](Schedule& schedule) { edit(graph, schedule); });
    };
  };
}

void repeat_an_update(const Graph& graph, Schedule& schedule) {
  for (const char* update : {"apply_sgd", "apply_adam"}) {
    const StepIndex step = find_step(schedule, computes(graph, update));
    if (step >= 0) return repeat_step(schedule, step);
  }
}

const std::vector<std::string>& plain_optimizers() {
  static const std::vector<std::string> names = {"sgd", "adam"};
  return names;
}

/// Seeds with one of the optimisers whose updates the faults repeat.
std::vector<TrainingSpec> specs_to_break(int count) {
  std::vector<TrainingSpec> specs;
  for (std::uint64_t seed = 1; static_cast<int>(specs.size()) < count; ++seed) {
    TrainingSpec spec = random_spec(seed);
    spec.optimizer = plain_optimizers()[seed % 2];
    // The fault does not depend on it, and a hundred small trainings are faster so.
    spec.threads = 1;
    // Every step is an update, and nothing but the fault holds it back.
    spec.micro_batches = 1;
    spec.skips = spec.averages = false;
    // Where interiors stay nothing is drawn again.
    spec.sections = {};
    spec.sections_differ = false;
    spec.budget = -1;
    specs.push_back(std::move(spec));
  }
  return specs;
}

TEST(PlantedFaults, AnUpdateThatIsAppliedTwiceIsFoundAndShrunkToNothingButTheHead) {
  for (const TrainingSpec& spec : specs_to_break(8)) {
    const auto report = examine(spec, fault(repeat_an_update));
    ASSERT_TRUE(report) << listing(spec);
    EXPECT_EQ(report->failure.kind, Failure::Kind::difference);
    EXPECT_LE(report->shrunk.layers.size(), 1U) << report->text();
    EXPECT_EQ(report->shrunk.steps, 1) << report->text();
    EXPECT_EQ(num_sections(report->shrunk), 1) << report->text();
    EXPECT_THAT(report->text(), HasSubstr(text_of("seed ", spec.seed, ": images")));
    EXPECT_THAT(
        report->text(),
        ContainsRegex("sections: step [0-9]+: .* differs at element .*\\(0x[0-9a-f]+\\) and .*\\(0x[0-9a-f]+\\)"));
    EXPECT_THAT(report->text(), HasSubstr("shrunk in "));
  }
}

/// Only where random numbers are drawn again: a fault that needs a noise, a border behind it, and something that reads
/// the noise once more.
void repeat_an_update_where_noise_is_replayed(const Graph& graph, Schedule& schedule) {
  if (find_step(schedule, computes(graph, schedule, "random", Pass::Kind::recompute)) >= 0) {
    repeat_an_update(graph, schedule);
  }
}

TEST(PlantedFaults, WhatTheFaultNeedsStaysAndAllElseGoes) {
  int found = 0;
  for (const TrainingSpec& spec : specs_to_break(150)) {
    if (found == 4) break;
    const auto report = examine(spec, fault(repeat_an_update_where_noise_is_replayed));
    if (!report) continue;
    ++found;
    const auto& layers = report->shrunk.layers;
    const auto is_noise = [](const LayerSpec& layer) { return layer.kind == "noise"; };
    EXPECT_EQ(std::count_if(layers.begin(), layers.end(), is_noise), 1) << report->text();
    EXPECT_LE(layers.size(), 3U) << report->text();
    EXPECT_EQ(num_sections(report->shrunk), 2) << report->text();
    EXPECT_EQ(report->shrunk.steps, 1) << report->text();
  }
  EXPECT_EQ(found, 4);
}

TEST(PlantedFaults, AnErrorInOneStrategyIsFoundAndShrunk) {
  const auto refuse_norms = fault([](const Graph& graph, Schedule& schedule) {
    SF_CHECK(find_step(schedule, computes(graph, "batch_norm")) < 0, InternalError, "no norm is wanted here");
  });
  int found = 0;
  for (const TrainingSpec& spec : specs_to_break(12)) {
    const auto report = examine(spec, refuse_norms);
    const bool has_norm = std::any_of(spec.layers.begin(), spec.layers.end(),
                                      [](const LayerSpec& layer) { return layer.kind == "norm" && layer.option < 2; });
    ASSERT_EQ(report.has_value(), has_norm) << listing(spec);
    if (!report) continue;
    ++found;
    EXPECT_EQ(report->failure.kind, Failure::Kind::exception);
    EXPECT_THAT(report->failure.text, ContainsRegex("^sections: .*no norm is wanted here"));
    ASSERT_EQ(report->shrunk.layers.size(), 1U) << report->text();
    EXPECT_EQ(report->shrunk.layers[0].kind, "norm");
  }
  EXPECT_GE(found, 2);
}

TEST(PlantedFaults, ATrainingThatChangesNothingIsFound) {
  const TrainingCase idle{"idle", [](Graph& graph, GraphSectionManager& manager) {
                            const Value x = placeholder(graph, "x", {2});
                            Value loss;
                            {
                              auto section = manager.new_section();
                              loss = reduce_sum(x * variable("w", fill(graph, {2}, 1.0)));
                            }
                            manager.add_training_ops(Sgd{.learning_rate = 0.0F}, loss);
                            manager.prepare_training();
                            return TrainingNet{loss, [x](std::int64_t step, FeedStore& store) {
                                                 store.push_back(random_images({2}, 1, step));
                                                 return Feeds{{x, store[0]}};
                                               }};
                          }};
  const auto failure = find_failure(idle, {.steps = 2});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, Failure::Kind::complaint);
  EXPECT_EQ(failure->text, "whole graph: training has changed nothing");
}

TEST(Shrink, EverySimplificationOfARandomSpecCanBeTrained) {
  for (std::uint64_t seed : {3, 11}) {
    for (const TrainingSpec& simpler : simpler_specs(random_spec(seed))) {
      TrainOptions options = train_options(simpler);
      options.steps = 1;
      EXPECT_NO_THROW((void)record_training(training_case(simpler), How::sections, options)) << listing(simpler);
    }
  }
}

TEST(Shrink, StopsAtALocalMinimumAndAtTheLimit) {
  const TrainingSpec spec = random_spec(5);
  const auto has_two_layers = [](const TrainingSpec& tried) { return tried.layers.size() >= 2; };
  const TrainingSpec smallest = shrink(spec, has_two_layers);
  EXPECT_EQ(smallest.layers.size(), 2U);
  EXPECT_EQ(smallest.steps, 1);
  EXPECT_EQ(num_sections(smallest), 1);
  for (const TrainingSpec& simpler : simpler_specs(smallest)) EXPECT_FALSE(has_two_layers(simpler)) << listing(simpler);
  EXPECT_EQ(listing(shrink(spec, has_two_layers, 0)), listing(spec));
}

}  // namespace
}  // namespace sectionflow::testing
