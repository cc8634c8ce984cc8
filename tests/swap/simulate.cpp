// The simulator against cases that were worked out by hand.

#include "swap/simulate.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "runtime/engine.h"
#include "swap/step_times.h"
#include "tests/support/temporary_folder.h"
#include "tests/swap/swap_case.h"

namespace sectionflow::testing {
namespace {

Step step(StepKind kind, Lane lane, std::vector<StepIndex> waits = {}) {
  Step step{.kind = kind};
  step.lane = lane;
  step.waits = std::move(waits);
  return step;
}

TEST(Simulate, OneLaneIsASum) {
  Schedule schedule;
  schedule.steps = {step(StepKind::compute, Lane::compute), step(StepKind::copy_out, Lane::compute),
                    step(StepKind::compute, Lane::compute)};
  const Prediction prediction = simulate(schedule, {1, 2, 4});
  EXPECT_EQ(prediction.seconds, 7);
  EXPECT_EQ(prediction.compute_seconds, 5);
  EXPECT_EQ(prediction.copy_seconds, 2);
  EXPECT_EQ(prediction.stall_seconds, 2);
  EXPECT_EQ(prediction.hidden_share(), 0);
  EXPECT_EQ(prediction.steps, (std::vector<StepTime>{{0, 1}, {1, 3}, {3, 7}}));
}

TEST(Simulate, CopiesBesideComputingAreHiddenUpToWaits) {
  // a [0, 1]; out [1, 4]; b [1, 3]; in behind out and b [4, 6]; c waits for in.
  Schedule schedule;
  schedule.steps = {step(StepKind::compute, Lane::compute), step(StepKind::copy_out, Lane::copy_out, {0}),
                    step(StepKind::compute, Lane::compute), step(StepKind::copy_in, Lane::copy_in, {1, 2}),
                    step(StepKind::compute, Lane::compute, {3})};
  const Prediction prediction = simulate(schedule, {1, 3, 2, 2, 1});
  EXPECT_EQ(prediction.steps, (std::vector<StepTime>{{0, 1}, {1, 4}, {1, 3}, {4, 6}, {6, 7}}));
  EXPECT_EQ(prediction.seconds, 7);
  EXPECT_EQ(prediction.compute_seconds, 4);
  EXPECT_EQ(prediction.stall_seconds, 3);
  EXPECT_DOUBLE_EQ(prediction.hidden_share(), 0.4);
  // Where each copy takes a second of the executions: b [2, 4], and c is ready at 5.
  const Prediction dragged = simulate(schedule, {1, 3, 2, 2, 1}, {0, 1, 0, 1, 0});
  EXPECT_EQ(dragged.steps, (std::vector<StepTime>{{0, 1}, {1, 4}, {2, 4}, {4, 6}, {6, 7}}));
  EXPECT_EQ(dragged.compute_seconds, 4);
  EXPECT_EQ(dragged.stall_seconds, 3) << "what copies delay is what swapping costs";
  EXPECT_THROW(simulate(schedule, {1, 3, 2, 2, 1}, {0, 1}), InternalError);
}

TEST(Simulate, ALaneThatEndsLastCounts) {
  Schedule schedule;
  schedule.steps = {step(StepKind::compute, Lane::compute), step(StepKind::disk_write, Lane::disk_out, {0})};
  EXPECT_EQ(simulate(schedule, {1, 9}).seconds, 10);
}

TEST(Simulate, CopiesOfOneLaneQueue) {
  Schedule schedule;
  schedule.steps = {step(StepKind::copy_out, Lane::copy_out), step(StepKind::copy_out, Lane::copy_out),
                    step(StepKind::compute, Lane::compute), step(StepKind::compute, Lane::compute, {1})};
  const Prediction prediction = simulate(schedule, {2, 2, 1, 1});
  EXPECT_EQ(prediction.seconds, 5);
  EXPECT_EQ(prediction.steps[3].start, 4);
}

TEST(Simulate, RefusesTimesThatAreNotOneAStep) {
  EXPECT_THROW(simulate(Schedule{}, {1.0}), InternalError);
}

/// Runs `look` on the tools with which the net's program is compiled.
void with_tools(const SessionOptions& options,
                const std::function<void(const InstructionList&, PlanningTools&)>& look) {
  Swapped net(deep_net(2), with_memory(options, 1_GiB));
  engine(net.session()).set_instruction_editor("look", [&](InstructionList list, PlanningTools& tools) {
    look(list, tools);
    return list;
  });
  net.plan();
}

TEST(StepTimes, CopiesAreHeldToTheThrottleByWhoeverCarriesThem) {
  const Profile profile{.link_out = 4e9, .link_in = 2e9};
  const double launch = profile.launch_seconds;
  const auto times = [&](const SessionOptions& options) {
    std::pair<double, double> seconds;
    with_tools(options, [&](const InstructionList&, PlanningTools& tools) {
      const StepTimes times(tools, profile);
      seconds = {times.transfer(StepKind::copy_out, 4'000'000), times.transfer(StepKind::copy_in, 4'000'000)};
    });
    return seconds;
  };
  EXPECT_DOUBLE_EQ(times({}).first, launch + 1e-3);
  EXPECT_DOUBLE_EQ(times({}).second, launch + 2e-3);
  // The team copies, then waits; a thread does both at once.
  EXPECT_DOUBLE_EQ(times({.link_bandwidth = 1e9}).first, launch + 5e-3);
  EXPECT_DOUBLE_EQ(times({.copy_threads = true, .link_bandwidth = 1e9}).first, launch + 4e-3);
  EXPECT_DOUBLE_EQ(times({.copy_threads = true, .link_bandwidth = 8e9}).second, launch + 2e-3);
}

TEST(StepTimes, AProfileKnowsItsKernelsAndEstimatesTheOthers) {
  with_tools({}, [](const InstructionList& list, PlanningTools& tools) {
    const Draft draft = tools.draft(list);
    Profile profile;
    std::size_t computed = 0;
    for (const Step& step : draft.schedule.steps) {
      if (step.kind != StepKind::compute) continue;
      if (++computed % 2 == 0) continue;
      profile.kernel_seconds[kernel_key(tools.graph(), step, *tools.kernels()[static_cast<std::size_t>(step.slot)])] =
          7;
    }
    ASSERT_GT(profile.kernel_seconds.size(), 10U);
    const std::vector<double> known = StepTimes(tools, profile).of(draft.schedule);
    const Profile nominal = Profile::nominal();
    const std::vector<double> estimated = StepTimes(tools, nominal).of(draft.schedule);
    computed = 0;
    for (std::size_t i = 0; i < known.size(); ++i) {
      const bool measured = draft.schedule.steps[i].kind == StepKind::compute && ++computed % 2 == 1;
      EXPECT_EQ(known[i], measured ? 7 : estimated[i]) << i;
      EXPECT_GE(estimated[i], nominal.launch_seconds);
      EXPECT_LT(estimated[i], 1);
    }
  });
}

class ProfileFile : public ::testing::Test {
 protected:
  std::string path() const { return (folder_.path() / "profile.json").string(); }
  void write(const std::string& text) const { std::ofstream(path()) << text; }
  std::string refusal() const {
    try {
      Profile::load(path());
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }
  TemporaryFolder folder_;
};

TEST_F(ProfileFile, IsReadAsItWasWritten) {
  const Profile profile{.kernel_seconds = {{"conv2d 'a' by loop: f32[1] -> f32[2]", 0.1}, {"relu \"é\"\n", 1e-7}},
                        .flops = 123,
                        .memory_bandwidth = 1e9,
                        .launch_seconds = 0,
                        .link_out = 1.5,
                        .link_in = 3,
                        .copy_drag = 3e-10,
                        .disk_out = 4,
                        .disk_in = 5};
  profile.save(path());
  EXPECT_EQ(Profile::load(path()), profile);
}

TEST_F(ProfileFile, OneThatWasWrittenWithoutTheDragOfCopiesHasNone) {
  std::string text = Profile{.copy_drag = 0.5}.json();
  text.erase(text.find(" \"copy_drag\": 0.5,\n"), sizeof(" \"copy_drag\": 0.5,\n") - 1);
  EXPECT_EQ(Profile::from_json(text, ""), Profile{});
}

TEST_F(ProfileFile, DamagedFilesAreRefusedWithTheirPath) {
  Profile{}.save(path());
  std::ifstream file(path());
  const std::string good((std::istreambuf_iterator<char>(file)), {});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto place = text.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    return text.replace(place, from.size(), to);
  };
  const std::string deep(100'000, '[');
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[1]"), std::string("3"), deep,
        with("\"version\": 1", "\"version\": 2"), with("\"version\": 1", "\"version\": \"1\""),
        with("sectionflow profile", "another"), with("\"link_in\"", "\"link_inn\""), with("10000000000.0", "-1.0"),
        with("10000000000.0", "1e400"), with("10000000000.0", "null"), with("10000000000.0", "0"),
        with("\"kernel_seconds\": {}", "\"kernel_seconds\": []"),
        with("\"kernel_seconds\": {}", "\"kernel_seconds\": {\"a\": -1}"),
        with("\"kernel_seconds\": {}", "\"kernel_seconds\": {\"a\": \"b\"}"), good.substr(0, good.size() / 2)}) {
    write(text);
    EXPECT_NE(refusal().find(path()), std::string::npos) << text.substr(0, 200) << " gave " << refusal();
  }
}

TEST_F(ProfileFile, IsMeasuredOnce) {
  int num_measured = 0;
  const auto measure = [&] { return Profile{.flops = 100.0 + ++num_measured}; };
  EXPECT_EQ(Profile::load_or_measure(path(), measure), Profile{.flops = 101});
  EXPECT_EQ(Profile::load_or_measure(path(), measure), Profile{.flops = 101});
  write("damaged");
  EXPECT_THROW(Profile::load_or_measure(path(), measure), DataError);
  EXPECT_NE(refusal(), "") << "a file that is there is not replaced";
  EXPECT_EQ(num_measured, 1);
}

TEST_F(ProfileFile, MissingFilesAndFoldersAreRefused) {
  EXPECT_THROW(Profile::load(path() + ".missing"), DataError);
  EXPECT_THROW(Profile{}.save(path() + "/in/a/file"), DataError);
}

TEST_F(ProfileFile, IsNotReadFromPipesAndFolders) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_NE(refusal().find("is no file"), std::string::npos) << refusal();
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_NE(refusal().find("is no file"), std::string::npos) << refusal();
}

TEST_F(ProfileFile, IsNotReadWhereItIsLargerThanAnyProfile) {
  write("{");
  std::filesystem::resize_file(path(), 256'000'001);  // a hole, which takes no room
  EXPECT_NE(refusal().find("has 256000001 bytes; wanted at most 256000000"), std::string::npos) << refusal();
}

TEST_F(ProfileFile, StaysWholeWhereItCannotBeReplaced) {
  Profile{.flops = 7}.save(path());
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string text;
  try {
    Profile{.flops = 8}.save(path());
  } catch (const DataError& error) {
    text = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_NE(text.find("its bytes cannot be written"), std::string::npos) << text;
  EXPECT_EQ(Profile::load(path()), Profile{.flops = 7});
  EXPECT_EQ(folder_.num_files(), 1U);
}

TEST_F(ProfileFile, ErrorsNameTheCall) {
  const auto place = [](int line) { return "simulate.cpp:" + std::to_string(line); };
  const auto where_of = [](const auto& call) {
    try {
      call();
    } catch (const DataError& error) {
      return error.fact("where");
    }
    return std::string();
  };
  const std::string absent = path() + "/absent";
  EXPECT_EQ(where_of([&] { (void)Profile::load(absent); }), place(__LINE__));
  EXPECT_EQ(where_of([&] { Profile{}.save(absent); }), place(__LINE__));
  EXPECT_EQ(where_of([&] { (void)Profile::load_or_measure(absent, Profile::nominal); }), place(__LINE__));
  write("damaged");
  EXPECT_EQ(where_of([&] { (void)Profile::load(path()); }), place(__LINE__));
}

TEST(MeasureProfile, KnowsEveryKernelAndChangesNothing) {
  for (const bool ample : {true, false}) {
    const TrainingCase net = deep_net(3);
    const Bounds bounds = bounds_of(net, {});
    SessionOptions options = with_memory({.disk = 1_MiB, .copy_threads = ample}, ample ? 1_GiB : bounds.least);
    Swapped measured(net, options), plain(net, options);
    measured.session().initialize();
    plain.session().initialize();
    measured.run(0);
    plain.run(0);
    const Profile profile = measured.measure();
    EXPECT_GT(profile.kernel_seconds.size(), 30U);
    for (const auto& [key, seconds] : profile.kernel_seconds) EXPECT_GT(seconds, 0) << key;
    for (double rate :
         {profile.link_out, profile.link_in, profile.disk_out, profile.disk_in, profile.memory_bandwidth}) {
      EXPECT_GT(rate, 1e6);
    }
    EXPECT_EQ(measured.session().completed_cycles(), 1U);
    for (int step = 1; step < 3; ++step) EXPECT_TRUE(bitwise_equal(measured.run(step), plain.run(step)));
    for (Value variable : measured.graph().values(kVariables)) {
      const Value other = plain.graph().node(variable.node().id()).output();
      EXPECT_TRUE(bitwise_equal(measured.session().read(variable), plain.session().read(other))) << variable.name();
    }
  }
}

TEST(MeasureProfile, RefusesASessionWithoutVariables) {
  Swapped net(deep_net(1), with_memory({}, 1_GiB));
  EXPECT_THROW(net.measure(), ArgumentError);
}

}  // namespace
}  // namespace sectionflow::testing
