// Random programs are what they should be, and find the faults that are planted into them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "runtime/engine.h"
#include "tests/support/layer_kinds.h"
#include "tests/support/schedule_editing.h"
#include "tests/support/shrink_program.h"
#include "tests/support/watchdog.h"

namespace sectionflow::testing {
namespace {

using ::testing::HasSubstr;
using testing_support::drop_step;
using testing_support::find_step;

constexpr std::uint64_t kSeeds = 300;

template <class Test>
int programs_with(const Test& test) {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) found += test(random_program(seed)) ? 1 : 0;
  return found;
}

TEST(RandomPrograms, HaveEveryKindOfCallAdditionAndLayerOften) {
  for (int kind = 0; kind < kNumCallKinds; ++kind) {
    const auto wanted = static_cast<CallKind>(kind);
    const auto has = [&](const ProgramSpec& spec) {
      return std::any_of(spec.calls.begin(), spec.calls.end(),
                         [&](const CallSpec& call) { return call.kind == wanted; });
    };
    EXPECT_GE(programs_with(has), 15) << name_of(wanted);
  }
  for (int kind = 0; kind < kNumExtraKinds; ++kind) {
    const auto wanted = static_cast<ExtraKind>(kind);
    const auto has = [&](const ProgramSpec& spec) {
      return std::any_of(spec.extras.begin(), spec.extras.end(),
                         [&](const ExtraSpec& extra) { return extra.kind == wanted; });
    };
    EXPECT_GE(programs_with(has), 30) << name_of(wanted);
  }
  for (const auto* kinds : {&layer_kinds(), &program_layer_kinds()}) {
    for (const LayerKind& kind : *kinds) {
      const auto has = [&](const ProgramSpec& spec) {
        return std::any_of(spec.model.layers.begin(), spec.model.layers.end(),
                           [&](const LayerSpec& layer) { return layer.kind == kind.name; });
      };
      EXPECT_GE(programs_with(has), 15) << kind.name;
    }
  }
}

TEST(RandomPrograms, HaveEveryKindOfSessionOften) {
  EXPECT_GE(programs_with([](const ProgramSpec& spec) { return spec.model.threads == 1; }), 80);
  EXPECT_GE(programs_with([](const ProgramSpec& spec) { return spec.model.threads == 2; }), 80);
  EXPECT_GE(programs_with([](const ProgramSpec& spec) { return spec.model.budget == 0; }), 40);
  EXPECT_GE(programs_with([](const ProgramSpec& spec) { return spec.model.has_disk; }), 80);
  EXPECT_GE(programs_with([](const ProgramSpec& spec) { return spec.random_delays; }), 20);
  EXPECT_GE(programs_with([](const ProgramSpec& spec) { return spec.swap_variables; }), 40);
  EXPECT_GE(programs_with([](const ProgramSpec& spec) { return spec.poison; }), 40);
  EXPECT_GE(programs_with([](const ProgramSpec& spec) { return spec.forgets_programs; }), 40);
  EXPECT_GE(programs_with([](const ProgramSpec& spec) { return num_sections(spec.model) >= 4; }), 80);
  EXPECT_GE(programs_with([](const ProgramSpec& spec) { return spec.model.micro_batches == 2; }), 30);
  EXPECT_GE(programs_with([](const ProgramSpec& spec) { return spec.model.micro_batches == 3; }), 30);
  const auto uses_both = [](const ProgramSpec& spec) {
    return std::any_of(spec.calls.begin(), spec.calls.end(), [](const CallSpec& call) { return call.session == 1; });
  };
  EXPECT_GE(programs_with(uses_both), 80);
}

TEST(RandomPrograms, AreTheSameForTheSameSeed) {
  EXPECT_EQ(text_of_spec(random_program(17)), text_of_spec(random_program(17)));
  EXPECT_NE(text_of_spec(random_program(17)), text_of_spec(random_program(18)));
}

TEST(RandomPrograms, AreReadBackFromTheTextThatAFailurePrints) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const ProgramSpec spec = random_program(seed);
    const ProgramSpec read = spec_of_text(text_of_spec(spec));
    ASSERT_EQ(listing(read), listing(spec));
    ASSERT_EQ(text_of_spec(read), text_of_spec(spec));
  }
  EXPECT_EQ(text_of_spec({}), "{}");
  for (const char* text : {"", "{", R"({"calls":[{"kind":"swim"}]})", R"({"colour":1})", R"({"poison":"yes"})"}) {
    EXPECT_THROW((void)spec_of_text(text), ArgumentError) << text;
  }
}

TEST(RandomPrograms, AreSimplifiedToNothingIfNothingIsNeeded) {
  ProgramSpec spec = random_program(5);
  for (;;) {
    auto simpler = simpler_programs(spec);
    if (simpler.empty()) break;
    spec = std::move(simpler.front());
  }
  EXPECT_TRUE(spec.calls.empty() && spec.extras.empty() && spec.model.layers.empty()) << listing(spec);
}

// ---- A fault is found, and the program that shows it is small.

ProgramSpec plain_program(std::vector<CallSpec> calls) {
  ProgramSpec spec;
  spec.model.seed = 3;
  spec.model.layers = {{.id = 1, .kind = "conv", .place = Place::section, .size = 3, .side = 3},
                       {.id = 2, .kind = "activation", .option = 3},
                       {.id = 3, .kind = "dense", .place = Place::section, .size = 3}};
  spec.calls = std::move(calls);
  return spec;
}

/// Plants a fault into the programs of cycles.
ProgramHooks in_cycles(const std::function<void(const Graph&, Schedule&)>& edit) {
  return {.on_session = [edit](const Graph& graph, Session& session) {
    engine(session).set_schedule_editor([edit, &graph](Schedule& schedule) {
      const bool backward = std::any_of(schedule.passes.begin(), schedule.passes.end(),
                                        [](const Pass& pass) { return pass.kind == Pass::Kind::backward; });
      if (backward) edit(graph, schedule);
    });
  }};
}

bool is_optimizer_step(const Graph& graph, const Step& step) {
  return step.kind == StepKind::compute && graph.node(step.node).op().name.starts_with("apply_");
}

void skip_an_update(const Graph& graph, Schedule& schedule) {
  const StepIndex step = find_step(schedule, [&](const Step& tried) { return is_optimizer_step(graph, tried); });
  if (step >= 0) drop_step(schedule, step);
}

TEST(PlantedFaults, AnUpdateThatIsSkippedIsFoundAndShrunkToOneCall) {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 20 && found < 4; ++seed) {
    ProgramSpec spec = random_program(seed);
    std::erase_if(spec.calls, [](const CallSpec& call) {
      return call.kind != CallKind::cycle && call.kind != CallKind::add && call.kind != CallKind::evaluate;
    });
    const bool cycles = std::any_of(spec.calls.begin(), spec.calls.end(),
                                    [](const CallSpec& call) { return call.kind == CallKind::cycle; });
    if (!cycles) continue;
    // An update in each cycle; and faster, which is no matter here.
    spec.model.micro_batches = 1;
    spec.model.threads = 1;
    spec.model.budget = -1;
    spec.random_delays = false;
    const auto report = examine(spec, in_cycles(skip_an_update), 150);
    ASSERT_TRUE(report) << listing(spec);
    ++found;
    EXPECT_EQ(report->failure.kind, Failure::Kind::difference) << report->text();
    EXPECT_EQ(report->shrunk.calls.size(), 1U) << report->text();
    EXPECT_TRUE(report->shrunk.extras.empty()) << report->text();
    EXPECT_THAT(report->text(), HasSubstr(text_of("seed ", seed, ": images")));
    EXPECT_THAT(report->text(), HasSubstr("random_programs --spec '{"));
    EXPECT_EQ(listing(spec_of_text(text_of_spec(report->shrunk))), listing(report->shrunk));
  }
  EXPECT_EQ(found, 4);
}

TEST(PlantedFaults, AFaultInOneKindOfCallIsFoundThereAndNowhereElse) {
  const auto skip = in_cycles(skip_an_update);
  EXPECT_FALSE(find_failure(plain_program({{.kind = CallKind::whole}, {.kind = CallKind::evaluate}}), skip));
  for (CallKind kind : {CallKind::cycle, CallKind::smallest}) {
    const auto failure = find_failure(plain_program({{.kind = CallKind::whole, .session = 1}, {.kind = kind}}), skip);
    ASSERT_TRUE(failure) << name_of(kind);
    EXPECT_THAT(failure->text, HasSubstr(text_of("call 1, ", name_of(kind), ": ")));
  }
  const auto halves = find_failure(plain_program({{.kind = CallKind::forward}, {.kind = CallKind::backward}}), skip);
  ASSERT_TRUE(halves);
  EXPECT_THAT(halves->text, HasSubstr("call 1, backward: "));
}

TEST(PlantedFaults, AnErrorThatNobodyMayThrowIsFoundWithItsCode) {
  const auto refuse = in_cycles([](const Graph&, Schedule&) { throw InternalError("planted"); });
  const auto internal = find_failure(plain_program({{.kind = CallKind::cycle}}), refuse);
  ASSERT_TRUE(internal);
  EXPECT_EQ(internal->mark, "SF-E900");
  const auto untyped = find_failure(plain_program({{.kind = CallKind::cycle}}),
                                    in_cycles([](const Graph&, Schedule&) { throw std::runtime_error("planted"); }));
  ASSERT_TRUE(untyped);
  EXPECT_EQ(untyped->mark, "untyped");
  const auto wrongly = find_failure(plain_program({{.kind = CallKind::cycle}}),
                                    in_cycles([](const Graph&, Schedule&) { throw ArgumentError("planted"); }));
  ASSERT_TRUE(wrongly);
  EXPECT_EQ(wrongly->mark, "SF-E010");
}

/// Plans more for one buffer than its kernels touch; of those that are copied, and so touched whole, for none.
void plan_too_much(Schedule& schedule, std::size_t buffer) {
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::compute) continue;
    for (const auto& operands : {step.inputs, step.outputs}) {
      for (const Operand& operand : operands) {
        if (operand.index == static_cast<int>(buffer)) return;
      }
    }
  }
  if (buffer < schedule.buffers.size()) schedule.buffers[buffer].bytes += 1_MiB;
}

// Where another buffer lies above that one, all that is planned is touched. Which do so the kernels of a machine
// decide.
TEST(PlantedFaults, APlanThatIsNotWhatIsMeasuredIsFound) {
  int found = 0;
  for (std::size_t buffer = 0; buffer < 24; ++buffer) {
    const auto failure =
        find_failure(plain_program({{.kind = CallKind::cycle}}),
                     in_cycles([buffer](const Graph&, Schedule& schedule) { plan_too_much(schedule, buffer); }));
    if (!failure) continue;
    ++found;
    EXPECT_EQ(failure->kind, Failure::Kind::complaint) << failure->text;
    EXPECT_THAT(failure->text, HasSubstr("measured device bytes"));
  }
  EXPECT_GT(found, 2);
}

// ---- What random programs have found, each as small as it became.

TEST(FoundByRandomPrograms, AFeedComesInAnewBesideAnotherNameOfItThatIsOffloaded) {
  const auto failure = find_failure(spec_of_text(R"({"calls":[{"kind":"forward"},
      {"fetches":1,"kind":"backward","option":1239}],"model":{"batch":1,"budget":0,"channels":1,
      "layers":[{"id":103,"kind":"recur","size":1}],"seed":10038,"side":1,"steps":1}})"));
  EXPECT_FALSE(failure) << failure->text;
}

TEST(WatchdogDeathTest, ToldWhatHangsOrCrashesBeforeTheProcessEnds) {
  const auto hang = [] {
    const Watchdog watchdog(1);
    Watchdog::watch("seed 17");
    for (;;) pause();
  };
  EXPECT_EXIT(hang(), ::testing::ExitedWithCode(2), "it hangs: seed 17");
  const auto crash = [] {
    const Watchdog watchdog(100);
    Watchdog::watch("seed 18");
    std::raise(SIGSEGV);
  };
  EXPECT_DEATH(crash(), "it crashes: seed 18");
}

}  // namespace
}  // namespace sectionflow::testing
