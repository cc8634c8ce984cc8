#include "schedule/joint_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/bytes.h"
#include "examples/models/mnist_resnet.h"
#include "examples/models/synthetic_batches.h"
#include "runtime/engine.h"
#include "tests/schedule/random_queue_programs.h"
#include "tests/support/emulated_device.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kUpdates = 0, kAverages = 0;

class NamedKernel final : public Kernel {
 public:
  explicit NamedKernel(const void* kind) : kind_(kind) {}
  void launch(const KernelArguments&) override {}
  const void* joint_kind() const override { return kind_; }

 private:
  const void* kind_;
};

/// Schedules written by hand: buffers are bytes of a region of 1,000, variables numbers.
class JoinSteps : public testing::Test {
 protected:
  JoinSteps() {
    for (const void* kind : {static_cast<const void*>(nullptr), static_cast<const void*>(&kUpdates),
                             static_cast<const void*>(&kAverages)}) {
      kernels_.push_back(std::make_unique<NamedKernel>(kind));
    }
  }

  static Operand variable(int number) { return {Operand::Kind::variable, number}; }
  Operand bytes(std::size_t begin, std::size_t end, Tier tier = Tier::device) {
    const auto number = static_cast<int>(schedule_.buffers.size());
    const StepIndex now = size();
    schedule_.buffers.push_back({.value = {}, .bytes = end - begin, .life = {now, now}, .fixed_offset = {}});
    schedule_.buffers.back().tier = tier;
    storage_.storage_of_buffer.push_back(number);
    storage_.storages.push_back({end - begin, {now, now}, std::nullopt, tier});
    plan_.offsets.push_back(begin);
    return {Operand::Kind::buffer, number};
  }
  StepIndex size() const { return static_cast<StepIndex>(schedule_.steps.size()); }
  StepIndex add(Step step) {
    schedule_.steps.push_back(std::move(step));
    return size() - 1;
  }
  /// An update of a variable by a gradient in bytes [begin, begin + 10).
  StepIndex update(int variable_number, std::size_t begin, int slot = 1) {
    const Operand changed = variable(variable_number), gradient = bytes(begin, begin + 10);
    return add({.inputs = {changed, gradient}, .updated = {changed}, .slot = slot});
  }
  /// Any other work.
  StepIndex work(std::vector<Operand> reads, std::vector<Operand> writes) {
    return add({.inputs = std::move(reads), .outputs = std::move(writes)});
  }
  std::vector<JointSteps> joined() { return join_steps(schedule_, kernels_, storage_, plan_); }

  Schedule schedule_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  StorageAssignment storage_;
  MemoryPlan plan_;
};

TEST_F(JoinSteps, StepsOfOneKindGoTogetherAlsoBehindOthers) {
  update(1, 0), update(2, 10);
  work({bytes(100, 200)}, {bytes(200, 300)});
  update(3, 20);
  work({variable(7)}, {bytes(300, 400)});
  EXPECT_THAT(joined(), ElementsAre(ElementsAre(0, 1, 3)));
}

TEST_F(JoinSteps, EachKindHasItsOwnLaunchAndOtherKernelsHaveNone) {
  update(1, 0, 1), update(2, 10, 2), update(3, 20, 0), update(4, 30, 2), update(5, 40, 1), update(6, 50, 0);
  EXPECT_THAT(joined(), ElementsAre(ElementsAre(0, 4), ElementsAre(1, 3)));
}

TEST_F(JoinSteps, NoneIsPutOffBehindAWriterOfWhatItReads) {
  update(1, 0), update(2, 10);
  work({}, {bytes(19, 25)});
  update(3, 40), update(4, 50);
  EXPECT_THAT(joined(), ElementsAre(ElementsAre(0, 1), ElementsAre(3, 4)));
}

TEST_F(JoinSteps, BytesThatOnlyTouchAreNoConflict) {
  update(1, 0), update(2, 10);
  work({}, {bytes(20, 40)});
  update(3, 40);
  EXPECT_THAT(joined(), ElementsAre(ElementsAre(0, 1, 3)));
}

TEST_F(JoinSteps, NoneIsPutOffBehindAReaderOrAnUpdateOfItsVariable) {
  update(1, 0);
  work({variable(1)}, {bytes(100, 110)});
  update(2, 20), update(2, 30), update(3, 40);
  EXPECT_THAT(joined(), ElementsAre(ElementsAre(3, 4)));
}

TEST_F(JoinSteps, StepsWhoseBytesWereUsedAnewInBetweenAreNotJoined) {
  update(1, 0);
  // The gradient of the next one lies where that of the last one was: without a writer in between the two read the
  // same bytes, with one they do not.
  update(2, 0);
  work({}, {bytes(0, 10)});
  update(3, 0);
  EXPECT_THAT(joined(), ElementsAre(ElementsAre(0, 1)));
}

TEST_F(JoinSteps, ScratchOverWhatItReadsEndsTheWaiting) {
  update(1, 0);
  const Operand scratch = bytes(5, 7);
  add({.workspace = scratch});
  update(2, 20);
  EXPECT_THAT(joined(), IsEmpty());
}

TEST_F(JoinSteps, KernelsWithScratchAreNeverJoined) {
  update(1, 0), update(2, 10);
  const Operand scratch = bytes(100, 164);
  schedule_.steps[1].workspace = scratch;
  update(3, 20);
  EXPECT_THAT(joined(), ElementsAre(ElementsAre(0, 2)));
}

TEST_F(JoinSteps, AReplayReadsItsKeptOutputs) {
  const Operand mean = bytes(0, 10);
  work({}, {mean});
  add({.inputs = {variable(1), mean}, .updated = {variable(1)}, .slot = 2});
  work({}, {mean});  // again: the buffer began earlier
  update(2, 100, 2);
  EXPECT_THAT(joined(), ElementsAre(ElementsAre(1, 3)));
}

TEST_F(JoinSteps, NoneIsPutOffBehindAStepThatOthersWaitFor) {
  update(1, 0), update(2, 10);
  work({}, {bytes(100, 110)});
  update(3, 20), update(4, 30);
  add({.kind = StepKind::copy_out, .inputs = {bytes(100, 110)}, .lane = Lane::copy_out, .waits = {2}});
  update(5, 40);
  EXPECT_THAT(joined(), ElementsAre(ElementsAre(0, 1), ElementsAre(3, 4, 6)));
  schedule_.steps[5].waits = {3};
  EXPECT_THAT(joined(), ElementsAre(ElementsAre(0, 1, 3), ElementsAre(4, 6))) << "that step is the last of its launch";
}

TEST_F(JoinSteps, ACopyThatBringsOtherBytesEndsTheWaitingAndOneOffTheDeviceDoesNot) {
  update(1, 0), update(2, 10);
  add({.kind = StepKind::disk_read, .outputs = {bytes(0, 30, Tier::host)}, .lane = Lane::disk_in});
  update(3, 20);
  add({.kind = StepKind::copy_in, .outputs = {bytes(0, 5)}, .lane = Lane::copy_in});
  update(4, 40);
  EXPECT_THAT(joined(), ElementsAre(ElementsAre(0, 1, 3)));
}

TEST_F(JoinSteps, EachHalfOfACycleHasItsOwn) {
  for (int i = 0; i < 5; ++i) update(i, static_cast<std::size_t>(10 * i));
  schedule_.half = 2;
  EXPECT_THAT(joined(), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4)));
}

TEST_F(JoinSteps, AFetchReadsAndAHoldDoesNothing) {
  update(1, 0), update(2, 10);
  add({.kind = StepKind::hold, .inputs = {variable(1)}});
  update(3, 20);
  add({.kind = StepKind::fetch, .inputs = {variable(2)}});
  update(4, 30);
  EXPECT_THAT(joined(), ElementsAre(ElementsAre(0, 1, 3)));
}

/// Whether two steps may not change places, read anew from the schedule: by bytes of the arena, one by one.
class Addresses {
 public:
  explicit Addresses(const Program& program) : program_(program) {}

  bool conflict(StepIndex a, StepIndex b) const {
    const auto writes_a = spans(a, true), all_a = spans(a, false), writes_b = spans(b, true), all_b = spans(b, false);
    return overlap(writes_a, all_b) || overlap(all_a, writes_b);
  }

 private:
  struct Span {
    int space;  // 0: the planned region; others: a variable
    std::size_t begin, end;
  };
  std::vector<Span> spans(StepIndex index, bool only_writes) const {
    const Step& step = program_.schedule.steps[static_cast<std::size_t>(index)];
    std::vector<Span> found;
    if (step.kind == StepKind::hold) return found;
    const auto add = [&](const Operand& operand) {
      if (operand.kind == Operand::Kind::variable) found.push_back({1 + operand.index, 0, 1});
      if (operand.kind != Operand::Kind::buffer) return;
      const auto number = static_cast<std::size_t>(operand.index);
      const Buffer& buffer = program_.schedule.buffers[number];
      if (buffer.tier != Tier::device) return;
      const auto storage = static_cast<std::size_t>(program_.storage.storage_of_buffer[number]);
      found.push_back({0, program_.plan.offsets[storage], program_.plan.offsets[storage] + buffer.bytes});
    };
    for (const Operand& updated : step.updated) add(updated);
    for (const Operand& output : step.outputs) {
      const bool kept = output.kind == Operand::Kind::buffer &&
                        program_.schedule.buffers[static_cast<std::size_t>(output.index)].life.first < index;
      if (!kept || !only_writes) add(output);
    }
    add(step.workspace);
    for (const Operand& input : step.inputs) {
      if (!only_writes) add(input);
    }
    return found;
  }
  static bool overlap(const std::vector<Span>& a, const std::vector<Span>& b) {
    return std::any_of(a.begin(), a.end(), [&](const Span& x) {
      return std::any_of(b.begin(), b.end(),
                         [&](const Span& y) { return x.space == y.space && x.begin < y.end && y.begin < x.end; });
    });
  }

  const Program& program_;
};

void expect_sound_groups(const Program& program, int& num_groups) {
  const Schedule& schedule = program.schedule;
  const Addresses addresses(program);
  std::vector<bool> awaited(schedule.steps.size(), false), joined(schedule.steps.size(), false);
  for (const Step& step : schedule.steps) {
    for (StepIndex earlier : step.waits) awaited[static_cast<std::size_t>(earlier)] = true;
  }
  for (const JointSteps& steps : join_steps(schedule, program.kernels, program.storage, program.plan)) {
    ++num_groups;
    EXPECT_GT(steps.size(), 1U);
    EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
    EXPECT_EQ(steps.front() < schedule.half, steps.back() < schedule.half);
    for (StepIndex index : steps) {
      EXPECT_FALSE(joined[static_cast<std::size_t>(index)]) << "launched twice";
      joined[static_cast<std::size_t>(index)] = true;
      for (StepIndex behind = index + 1; behind <= steps.back(); ++behind) {
        EXPECT_FALSE(addresses.conflict(index, behind)) << index << " behind " << behind;
        const auto before = static_cast<std::size_t>(behind - 1);
        EXPECT_FALSE(awaited[before] && schedule.steps[before].lane == Lane::compute) << index << " behind " << before;
      }
    }
  }
}

TEST(JoinStepsOfPrograms, NoUpdateIsPutOffBehindWhatItMustPrecede) {
  int num_groups = 0;
  for_each_random_queue_program([&](const Program& program) { expect_sound_groups(program, num_groups); });
  EXPECT_GT(num_groups, 50);
}

/// Launches of kernels that can be joined.
struct Counts {
  int alone = 0;   ///< where each is launched by itself
  int joined = 0;  ///< where they are joined
};
Counts counts_of(const Program& program) {
  Counts counts;
  for (const Step& step : program.schedule.steps) {
    if (step.kind != StepKind::compute) continue;
    counts.alone += program.kernels[static_cast<std::size_t>(step.slot)]->joint_kind() != nullptr ? 1 : 0;
  }
  counts.joined = counts.alone;
  for (const JointSteps& steps : join_steps(program.schedule, program.kernels, program.storage, program.plan)) {
    counts.joined -= static_cast<int>(steps.size()) - 1;
  }
  return counts;
}

TEST(JoinStepsOfPrograms, ThreeUpdatesOfMnistResnetShareALaunchAndTwoInSections) {
  const EmulatedCuda gpu;
  for (const int sections : {0, 4}) {
    Graph graph;
    GraphSectionManager manager(graph);
    const TrainableModel model = trainable_mnist_resnet(graph, manager, {.cut = {.sections = std::max(1, sections)}});
    Session session(graph, {.device = cuda(), .device_memory = 1_GiB});
    const FeedTypes types = types_of(model.feeds(synthetic_images({28, 28, 1}, 10, {.batch = 250})));
    if (sections == 0) {
      (void)session.plan({model.loss}, types, {.targets = manager.training_operations()});
    } else {
      (void)manager.plan(session, {model.loss}, types);
    }
    const Counts counts = counts_of(*engine(session).latest_program());
    EXPECT_EQ(counts.alone, 120);
    EXPECT_LE(counts.joined * (sections == 0 ? 3 : 2), counts.alone) << sections << " sections";
  }
}

}  // namespace
}  // namespace sectionflow
