#include "schedule/chained_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/bytes.h"
#include "examples/models/zoo.h"
#include "runtime/engine.h"
#include "schedule/step_accesses.h"
#include "tests/schedule/random_queue_programs.h"
#include "tests/support/emulated_device.h"

namespace sectionflow {

void PrintTo(const ChainedSteps& chain, std::ostream* out) {
  *out << chain.first << " > " << chain.second << " by operand " << chain.operand << (chain.stores ? ", stored" : "");
}

namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::IsEmpty;

enum class Role { none, sum, follower };

/// Sums are chained with sums and followers, which do not take it as their third operand.
class FakeKernel final : public Kernel {
 public:
  explicit FakeKernel(Role role) : role_(role) {}
  void launch(const KernelArguments&) override {}
  bool chains_into(const Kernel& next, int operand) const override {
    return role_ == Role::sum && static_cast<const FakeKernel&>(next).role_ != Role::none && operand < 2;
  }

 private:
  Role role_;
};

/// Schedules written by hand: buffers are bytes of a region, variables numbers.
class ChainSteps : public testing::Test {
 protected:
  ChainSteps() {
    for (const Role role : {Role::none, Role::sum, Role::follower}) {
      kernels_.push_back(std::make_unique<FakeKernel>(role));
    }
  }

  static Operand variable(int number) { return {Operand::Kind::variable, number}; }
  Operand bytes(std::size_t begin, std::size_t end, Tier tier = Tier::device) {
    const auto number = static_cast<int>(schedule_.buffers.size());
    schedule_.buffers.push_back({.value = {}, .bytes = end - begin, .life = {0, 0}, .fixed_offset = {}});
    schedule_.buffers.back().tier = tier;
    storage_.storage_of_buffer.push_back(static_cast<int>(storage_.storages.size()));
    storage_.storages.push_back({end - begin, {0, 0}, std::nullopt, tier});
    plan_.offsets.push_back(begin);
    return {Operand::Kind::buffer, number};
  }
  StepIndex size() const { return static_cast<StepIndex>(schedule_.steps.size()); }
  Buffer* buffer(const Operand& operand) {
    const bool is_one = operand.kind == Operand::Kind::buffer;
    return is_one ? &schedule_.buffers[static_cast<std::size_t>(operand.index)] : nullptr;
  }
  /// Adds a step; buffers begin with the first that writes them and end with the last that reads them.
  StepIndex add(Step step) {
    for (const Operand& input : step.inputs) {
      if (Buffer* read = buffer(input)) read->life.last = size();
    }
    for (const Operand& output : step.outputs) {
      Buffer* written = buffer(output);
      if (written != nullptr && written->life.last == 0) written->life = {size(), size()};
    }
    schedule_.steps.push_back(std::move(step));
    return size() - 1;
  }
  Operand make(Role role, std::vector<Operand> inputs, std::size_t begin, std::size_t length = 10) {
    const Operand output = bytes(begin, begin + length);
    add({.inputs = std::move(inputs), .outputs = {output}, .slot = static_cast<int>(role)});
    return output;
  }
  Operand other(std::vector<Operand> inputs, std::size_t begin) { return make(Role::none, std::move(inputs), begin); }
  /// Its storage is that of another buffer too, as of an operand that it lies over.
  Operand sum(std::vector<Operand> inputs, std::size_t begin) {
    const Operand output = make(Role::sum, std::move(inputs), begin);
    schedule_.buffers.push_back(schedule_.buffers.back());
    storage_.storage_of_buffer.push_back(storage_.storage_of_buffer.back());
    return output;
  }
  Operand follower(std::vector<Operand> inputs, std::size_t begin) {
    return make(Role::follower, std::move(inputs), begin);
  }
  std::vector<ChainedSteps> chained() {
    if (schedule_.half == 0) schedule_.half = size();
    return chain_steps(schedule_, kernels_, storage_, plan_);
  }

  Schedule schedule_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  StorageAssignment storage_;
  MemoryPlan plan_;
};

TEST_F(ChainSteps, ASumGoesWithWhatReadsIt) {
  const Operand x = other({}, 0);
  const Operand s = sum({x, variable(1)}, 10);
  follower({s}, 20);
  EXPECT_THAT(chained(), ElementsAre(ChainedSteps{1, 2, 0, false}));
}

TEST_F(ChainSteps, WhatOthersReadLaterIsStored) {
  const Operand s = sum({variable(1)}, 10);
  const Operand y = follower({variable(2), s}, 20);
  other({y}, 30);
  other({s}, 40);
  EXPECT_THAT(chained(), ElementsAre(ChainedSteps{0, 1, 1, true}));
}

TEST_F(ChainSteps, WhatIsFetchedOrHeldOrCopiedOutLaterIsStored) {
  for (const StepKind kind : {StepKind::fetch, StepKind::hold, StepKind::copy_out}) {
    schedule_ = {};
    storage_ = {};
    plan_ = {};
    const Operand s = sum({variable(1)}, 10);
    follower({s}, 20);
    add({.kind = kind, .inputs = {s}, .lane = kind == StepKind::copy_out ? Lane::copy_out : Lane::compute});
    EXPECT_THAT(chained(), ElementsAre(ChainedSteps{0, 1, 0, true}));
  }
}

TEST_F(ChainSteps, WhatHasAStorageOfItsOwnIsStored) {
  const Operand s = make(Role::sum, {variable(1)}, 10);
  follower({s}, 20);
  EXPECT_THAT(chained(), ElementsAre(ChainedSteps{0, 1, 0, true}));
}

TEST_F(ChainSteps, AReaderInBetweenSplits) {
  const Operand s = sum({variable(1)}, 10);
  other({s}, 30);
  follower({s}, 20);
  EXPECT_THAT(chained(), IsEmpty());
}

TEST_F(ChainSteps, AFetchInBetweenSplits) {
  const Operand s = sum({variable(1)}, 10);
  add({.kind = StepKind::fetch, .inputs = {s}});
  follower({s}, 20);
  EXPECT_THAT(chained(), IsEmpty());
}

TEST_F(ChainSteps, StepsInBetweenThatTouchOtherBytesDoNot) {
  const Operand s = sum({variable(1)}, 10);
  other({variable(1)}, 20);
  add({.kind = StepKind::copy_in, .outputs = {bytes(50, 60)}, .lane = Lane::copy_in});
  add({.kind = StepKind::disk_read, .outputs = {bytes(0, 60, Tier::host)}, .lane = Lane::disk_in});
  follower({s}, 30);
  EXPECT_THAT(chained(), ElementsAre(ChainedSteps{0, 4, 0, false}));
}

TEST_F(ChainSteps, AWriterOfWhatTheSumReadsSplits) {
  const Operand x = other({}, 0);
  const Operand s = sum({x}, 10);
  other({}, 5);
  follower({s}, 30);
  EXPECT_THAT(chained(), IsEmpty());
}

TEST_F(ChainSteps, AnUpdateOfAVariableThatTheSumReadsSplits) {
  const Operand s = sum({variable(1)}, 10);
  add({.inputs = {variable(1)}, .updated = {variable(1)}});
  follower({s}, 30);
  EXPECT_THAT(chained(), IsEmpty());
}

TEST_F(ChainSteps, ACopyOverWhatTheSumReadSplits) {
  const Operand x = other({}, 0);
  const Operand s = sum({x}, 10);
  add({.kind = StepKind::copy_in, .outputs = {bytes(0, 5)}, .lane = Lane::copy_in});
  follower({s}, 30);
  EXPECT_THAT(chained(), IsEmpty());
}

TEST_F(ChainSteps, ScratchOverWhatTheSumReadSplits) {
  const Operand x = other({}, 0);
  const Operand s = sum({x}, 10);
  const Operand scratch = bytes(0, 5);
  add({.workspace = scratch});
  follower({s}, 30);
  EXPECT_THAT(chained(), IsEmpty());
}

TEST_F(ChainSteps, NoSumIsPutOffBehindAStepThatOthersWaitFor) {
  const Operand s = sum({variable(1)}, 10);
  other({}, 40);
  follower({s}, 20);
  add({.kind = StepKind::copy_out, .inputs = {bytes(70, 80)}, .lane = Lane::copy_out, .waits = {2}});
  EXPECT_THAT(chained(), ElementsAre(ChainedSteps{0, 2, 0, false})) << "the second may be awaited";
  for (const StepIndex awaited : {0, 1}) {
    schedule_.steps[3].waits = {awaited};
    EXPECT_THAT(chained(), IsEmpty()) << "step " << awaited;
  }
}

TEST_F(ChainSteps, TheHalvesOfACycleAreNotChained) {
  const Operand s = sum({variable(1)}, 10);
  follower({s}, 20);
  schedule_.half = 1;
  EXPECT_THAT(chained(), IsEmpty());
  schedule_.half = 2;
  EXPECT_THAT(chained(), ElementsAre(ChainedSteps{0, 1, 0, false}));
}

TEST_F(ChainSteps, EachStepIsInOneChain) {
  const Operand a = sum({variable(1)}, 0);
  const Operand b = sum({a, variable(2)}, 10);
  const Operand c = sum({b, variable(3)}, 20);
  follower({c}, 30);
  EXPECT_THAT(chained(), ElementsAre(ChainedSteps{0, 1, 0, false}, ChainedSteps{2, 3, 0, false}));
}

TEST_F(ChainSteps, BothOperandsMustNotBeTheSum) {
  const Operand s = sum({variable(1)}, 10);
  follower({s, s}, 20);
  EXPECT_THAT(chained(), IsEmpty());
}

TEST_F(ChainSteps, TheKernelsDecide) {
  const Operand a = sum({variable(1)}, 0);
  follower({variable(1), variable(1), a}, 10);
  const Operand b = follower({variable(1)}, 20);
  follower({b}, 30);
  const Operand c = sum({variable(1)}, 40);
  other({c}, 50);
  EXPECT_THAT(chained(), IsEmpty());
}

TEST_F(ChainSteps, TheResultMayLieOverWhatIsInBetweenOrAnOperand) {
  const Operand x = other({}, 0), z = other({}, 10);
  for (const std::size_t place : {0, 10, 20}) {
    const Operand s = sum({x}, 20);
    follower({s, z}, place);
    EXPECT_EQ(chained().size(), 1U) << "at " << place;
    schedule_.steps.resize(2), schedule_.half = 0;
  }
}

TEST_F(ChainSteps, AResultThatLiesOverPartOfAnOperandOfTheSumSplits) {
  const Operand x = other({}, 10);
  const Operand s = sum({x}, 30);
  const Operand y = follower({s}, 5);
  EXPECT_THAT(chained(), IsEmpty());
  plan_.offsets[static_cast<std::size_t>(storage_.storage_of_buffer[static_cast<std::size_t>(y.index)])] = 0;
  EXPECT_THAT(chained(), ElementsAre(ChainedSteps{1, 2, 0, false}));
}

TEST_F(ChainSteps, AResultOverASmallerOperandSplits) {
  const Operand bias = make(Role::none, {}, 10, 5);
  const Operand s = sum({variable(1), bias}, 30);
  follower({s}, 10);
  EXPECT_THAT(chained(), IsEmpty());
}

TEST_F(ChainSteps, AnOperandOverWhatIsInBetweenSplits) {
  const Operand z = other({}, 25);
  const Operand s = sum({variable(1)}, 20);
  follower({s, z}, 50);
  EXPECT_THAT(chained(), IsEmpty());
}

TEST_F(ChainSteps, KernelsWithScratchUpdatesAndOutputsThatAreKeptAreNotChained) {
  const Operand s = sum({variable(1)}, 10);
  follower({s}, 20);
  ASSERT_THAT(chained(), testing::SizeIs(1));
  const Schedule plain = schedule_;
  const Operand scratch = bytes(70, 80);
  for (const int index : {0, 1}) {
    schedule_.steps = plain.steps;
    schedule_.steps[static_cast<std::size_t>(index)].workspace = scratch;
    EXPECT_THAT(chained(), IsEmpty());
    schedule_.steps = plain.steps;
    schedule_.steps[static_cast<std::size_t>(index)].updated = {variable(5)};
    EXPECT_THAT(chained(), IsEmpty());
  }
  schedule_.steps = plain.steps;
  schedule_.steps.insert(schedule_.steps.begin(), Step{.kind = StepKind::hold});
  EXPECT_THAT(chained(), IsEmpty()) << "the outputs began before";
}

/// Expects of each chain of a program what makes it right, worked out anew: nothing between the two touches what the
/// first writes, or writes what it reads; what is not stored, no step behind reads, and no bytes are planned for it.
void expect_sound_chains(const Program& program, int& num_chains) {
  const Schedule& schedule = program.schedule;
  std::vector<bool> chained(schedule.steps.size(), false);
  const auto touched = [&](StepIndex i) { return touched_by(schedule, program.storage, program.plan, i); };
  for (const ChainedSteps& chain : chain_steps(schedule, program.kernels, program.storage, program.plan)) {
    ++num_chains;
    const Step& first = schedule.steps[static_cast<std::size_t>(chain.first)];
    const Step& second = schedule.steps[static_cast<std::size_t>(chain.second)];
    EXPECT_EQ(first.outputs[0], second.inputs[static_cast<std::size_t>(chain.operand)]);
    EXPECT_EQ(chain.first < schedule.half, chain.second < schedule.half);
    for (StepIndex index : {chain.first, chain.second}) {
      EXPECT_FALSE(chained[static_cast<std::size_t>(index)]) << "launched twice";
      chained[static_cast<std::size_t>(index)] = true;
    }
    for (StepIndex between = chain.first + 1; between < chain.second; ++between) {
      EXPECT_FALSE(touched(chain.first).conflicts_with(touched(between))) << chain.first << " behind " << between;
    }
    bool is_read = false;
    for (StepIndex behind = chain.second + 1; behind < static_cast<StepIndex>(schedule.steps.size()); ++behind) {
      const auto& inputs = schedule.steps[static_cast<std::size_t>(behind)].inputs;
      is_read = is_read || std::find(inputs.begin(), inputs.end(), first.outputs[0]) != inputs.end();
    }
    const std::vector<int>& storages = program.storage.storage_of_buffer;
    const int own = storages[static_cast<std::size_t>(first.outputs[0].index)];
    const bool is_alone = std::count(storages.begin(), storages.end(), own) == 1;
    EXPECT_EQ(chain.stores, is_read || is_alone) << chain.first << " > " << chain.second;
  }
}

TEST(ChainStepsOfPrograms, NoSumIsPutOffBehindWhatItMustPrecede) {
  int num_chains = 0;
  for_each_random_queue_program([&](const Program& program) { expect_sound_chains(program, num_chains); });
  EXPECT_GT(num_chains, 50);
}

struct Network {
  std::string name;
  std::int64_t batch = 0;
  int chains = 0, stored = 0;
  double saved = 0;  ///< per cent of the bytes that kernels touch
};

TEST(ChainStepsOfPrograms, OfNetworksAreAsManyAsDocumented) {
  const EmulatedCuda gpu({.memory = std::size_t{1} << 40});
  for (const Network& network : {Network{"resnet50", 32, 31, 0, 11.6}, Network{"vgg16", 32, 15, 0, 13.7},
                                 Network{"gpt", 4, 36, 12, 4.0}, Network{"mobilenet_v2", 32, 0, 0, 0}}) {
    SCOPED_TRACE(network.name);
    Graph graph;
    GraphSectionManager manager(graph);
    const ZooModel zoo = zoo_model(network.name);
    const TrainableModel model = zoo.build(graph, manager);
    Session session(graph, {.device = cuda(), .device_memory = 200_GiB});
    const FeedTypes types = types_of(model.feeds(zoo.batch({.batch = network.batch})));
    (void)session.plan({model.loss}, types, {.targets = manager.training_operations()});
    const Program& program = *engine(session).latest_program();
    const Schedule& schedule = program.schedule;
    double all = 0, saved = 0;
    for (StepIndex i = 0; i < static_cast<StepIndex>(schedule.steps.size()); ++i) {
      if (schedule.steps[static_cast<std::size_t>(i)].kind != StepKind::compute) continue;
      for_each_access(schedule, program.storage, program.plan, i,
                      [&](const Access& access) { all += static_cast<double>(access.end - access.begin); });
    }
    int chains = 0, stored = 0;
    for (const ChainedSteps& chain : chain_steps(schedule, program.kernels, program.storage, program.plan)) {
      const Operand& between = schedule.steps[static_cast<std::size_t>(chain.first)].outputs[0];
      const auto bytes = static_cast<double>(schedule.buffers[static_cast<std::size_t>(between.index)].bytes);
      ++chains;
      stored += chain.stores ? 1 : 0;
      saved += chain.stores ? bytes : 2 * bytes;
    }
    EXPECT_EQ(chains, network.chains);
    EXPECT_EQ(stored, network.stored);
    EXPECT_NEAR(100 * saved / all, network.saved, 0.1);
  }
}

}  // namespace
}  // namespace sectionflow
