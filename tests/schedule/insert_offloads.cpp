#include "schedule/insert_offloads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/layout.h"
#include "graph/ops/unary.h"
#include "runtime/check_feeds.h"
#include "tests/support/schedule_editing.h"

namespace sectionflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using enum StepKind;

/// y = exp(exp(x)) + x: x lies idle while the exponentials run.
class IdleInput : public testing::Test {
 protected:
  static std::vector<StepKind> kinds(const InstructionList& list) {
    std::vector<StepKind> kinds;
    for (const Instruction& instruction : list.instructions) kinds.push_back(instruction.kind);
    return kinds;
  }

  Graph graph;
  Value x = placeholder(graph, "x", {8});
  Value a = exp(x), b = exp(a);
  Value y = b + x;
  HostTensor fed{Dtype::f32, {8}};
  Feeds feeds{{x, fed}};
  Signature signature = signature_of(graph, feeds);
  ConcreteGraph concrete{graph, signature};
  InstructionList list = build_schedule(concrete, {{y}, {}});  // feed x, a, b, y, fetch y
};

TEST_F(IdleInput, IsOffloadedAndCopiedBackWhereItIsTold) {
  ASSERT_THAT(kinds(list), ElementsAre(feed, compute, compute, compute, fetch));
  const InstructionList offloaded = insert_offloads(list, {{.value = x, .out = 2, .in = 3}});
  EXPECT_THAT(kinds(offloaded), ElementsAre(feed, compute, copy_out, compute, copy_in, compute, fetch));
  const InstructionList on_disk =
      insert_offloads(list, {{.value = x, .out = 2, .in = 3, .hold = 3, .on_disk = true, .disk_out = 2, .disk_in = 3}});
  EXPECT_THAT(kinds(on_disk),
              ElementsAre(feed, compute, copy_out, disk_write, compute, hold, disk_read, copy_in, compute, fetch));
}

TEST_F(IdleInput, GetsASecondBufferThatTheReaderReads) {
  const Schedule schedule = lower_instructions(insert_offloads(list, {{.value = x, .out = 2, .in = 3}}), concrete, 1);
  const Step& sum = schedule.steps[5];
  ASSERT_EQ(sum.node, y.node().id());
  const Buffer& back = schedule.buffers[static_cast<std::size_t>(sum.inputs[1].index)];
  EXPECT_EQ(back.value, x);
  EXPECT_EQ(back.life, (Life{4, 5}));
  const Buffer& first = schedule.buffers[static_cast<std::size_t>(schedule.steps[0].outputs[0].index)];
  EXPECT_EQ(first.life, (Life{0, 2})) << "the first buffer ends with the copy";
  const Buffer& on_host = schedule.buffers[static_cast<std::size_t>(schedule.steps[2].outputs[0].index)];
  EXPECT_EQ(on_host.tier, Tier::host);
  EXPECT_EQ(on_host.life, (Life{2, 4}));
}

TEST_F(IdleInput, HoldsItsBytesUntilTheCopyIsExpectedToBeOver) {
  const Schedule schedule =
      lower_instructions(insert_offloads(list, {{.value = x, .out = 1, .in = 3, .hold = 2}}), concrete, 1);
  const Buffer& first = schedule.buffers[static_cast<std::size_t>(schedule.steps[0].outputs[0].index)];
  EXPECT_EQ(schedule.steps[3].kind, hold);
  EXPECT_EQ(first.life.last, 3);
}

TEST_F(IdleInput, CarriersDecideTheLanes) {
  const InstructionList offloaded =
      insert_offloads(list, {{.value = x, .out = 2, .in = 3, .on_disk = true, .disk_out = 2, .disk_in = 3}});
  const auto lanes = [&](CopyCarrier carrier) {
    std::vector<Lane> lanes;
    for (const Step& step : lower_instructions(offloaded, concrete, 1, carrier).steps) {
      if (is_transfer(step.kind)) lanes.push_back(step.lane);
    }
    return lanes;
  };
  EXPECT_THAT(lanes(CopyCarrier::team), ElementsAre(Lane::compute, Lane::disk_out, Lane::disk_in, Lane::compute));
  EXPECT_THAT(lanes(CopyCarrier::threads), ElementsAre(Lane::copy_out, Lane::disk_out, Lane::disk_in, Lane::copy_in));
}

TEST_F(IdleInput, IsCopiedBackUnderAllItsNames) {
  const Value flat = reshape(x, {2, 4});
  const Value z = exp(flat) + reshape(b, {2, 4});
  const ConcreteGraph larger(graph, signature);
  const InstructionList wanted = build_schedule(larger, {{y, z}, {}});
  const auto reader =
      std::find_if(wanted.instructions.begin(), wanted.instructions.end(), [&](const Instruction& instruction) {
        return instruction.kind == compute && instruction.node == z.node().inputs()[0].node().id();
      });
  ASSERT_NE(reader, wanted.instructions.end());
  const int place = static_cast<int>(reader - wanted.instructions.begin());
  const Schedule schedule =
      lower_instructions(insert_offloads(wanted, {{.value = x, .out = place, .in = place}}), larger, 2);
  const auto copied =
      std::find_if(schedule.steps.begin(), schedule.steps.end(), [](const Step& step) { return step.kind == copy_in; });
  ASSERT_NE(copied, schedule.steps.end());
  const auto after = copied + 1;
  EXPECT_EQ(after->inputs[0], copied->outputs[0]) << "the reader of the other name reads the new buffer";
}

TEST_F(IdleInput, TheCopyOutBelongsToTheForwardHalfAndTheCopyInToTheOther) {
  InstructionList halves = list;
  halves.half = 2;
  const InstructionList offloaded = insert_offloads(halves, {{.value = x, .out = 2, .in = 2}});
  EXPECT_EQ(offloaded.half, 3);
  EXPECT_THAT(kinds(offloaded), ElementsAre(feed, compute, copy_out, copy_in, compute, compute, fetch));
}

TEST_F(IdleInput, AnOffloadThatIsCopiedBackBeforeItIsCopiedOutIsRefused) {
  EXPECT_THAT([&] { insert_offloads(list, {{.value = x, .out = 3, .in = 2}}); },
              ThrowsMessage<InternalError>(HasSubstr("'x' is copied out before instruction 3")));
  EXPECT_THAT([&] { insert_offloads(list, {{.value = x, .out = 2, .in = 9}}); },
              ThrowsMessage<InternalError>(HasSubstr("is copied back before instruction 9 of 5")));
}

TEST_F(IdleInput, ReadingAnOffloadThatIsNotThereIsRefused) {
  InstructionList broken = list;
  broken.instructions.insert(broken.instructions.begin() + 3, {.kind = copy_in, .fetched = x, .offload = 0});
  EXPECT_THAT([&] { lower_instructions(broken, concrete, 1); },
              ThrowsMessage<InternalError>(HasSubstr("reads offload 0 of host memory")));
}

}  // namespace
}  // namespace sectionflow
