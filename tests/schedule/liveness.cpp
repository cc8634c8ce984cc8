#include "schedule/liveness.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace sectionflow {
namespace {

/// Says that certain outputs may lie over certain inputs.
class StubKernel final : public Kernel {
 public:
  explicit StubKernel(std::vector<InPlace> pairs) : pairs_(std::move(pairs)) {}
  std::vector<InPlace> in_place() const override { return pairs_; }
  void launch(const KernelArguments&) override {}

 private:
  std::vector<InPlace> pairs_;
};

Operand buffer(int index) {
  return {Operand::Kind::buffer, index};
}

/// A schedule of compute steps over buffers given by bytes and life.
struct BuffersOfSteps {
  Schedule schedule;
  std::vector<std::unique_ptr<Kernel>> kernels;

  void add_buffer(std::size_t bytes, StepIndex first, StepIndex last) {
    schedule.buffers.push_back({.value = {}, .bytes = bytes, .life = {first, last}, .fixed_offset = {}});
  }
  void add_step(std::vector<Operand> inputs, std::vector<Operand> outputs, std::vector<InPlace> pairs) {
    Step step{.kind = StepKind::compute, .inputs = std::move(inputs), .outputs = std::move(outputs)};
    step.slot = static_cast<int>(kernels.size());
    schedule.steps.push_back(step);
    kernels.push_back(std::make_unique<StubKernel>(std::move(pairs)));
  }
  StorageAssignment assign(std::size_t guard_bytes = 0) { return assign_storages(schedule, kernels, guard_bytes); }
};

TEST(AssignStorages, AnOutputTakesOverAnInputThatDies) {
  BuffersOfSteps f;
  f.add_buffer(64, 0, 1), f.add_buffer(64, 1, 2);
  f.add_step({}, {buffer(0)}, {});
  f.add_step({buffer(0)}, {buffer(1)}, {{0, 0}});
  f.add_step({buffer(1)}, {}, {});
  const StorageAssignment storage = f.assign();
  ASSERT_EQ(storage.storages.size(), 1u);
  EXPECT_EQ(storage.storage_of_buffer, (std::vector<int>{0, 0}));
  EXPECT_EQ(storage.storages[0].life, (Life{0, 2}));
  EXPECT_EQ(storage.storages[0].bytes, 64u);
}

TEST(AssignStorages, AChainOfTakeoversIsOneStorage) {
  BuffersOfSteps f;
  f.add_buffer(64, 0, 1), f.add_buffer(64, 1, 2), f.add_buffer(64, 2, 2);
  f.add_step({}, {buffer(0)}, {});
  f.add_step({buffer(0)}, {buffer(1)}, {{0, 0}});
  f.add_step({buffer(1)}, {buffer(2)}, {{0, 0}});
  const StorageAssignment storage = f.assign();
  ASSERT_EQ(storage.storages.size(), 1u);
  EXPECT_EQ(storage.storages[0].life, (Life{0, 2}));
}

TEST(AssignStorages, AnInputThatIsReadLaterKeepsItsBytes) {
  BuffersOfSteps f;
  f.add_buffer(64, 0, 2), f.add_buffer(64, 1, 2);
  f.add_step({}, {buffer(0)}, {});
  f.add_step({buffer(0)}, {buffer(1)}, {{0, 0}});
  f.add_step({buffer(0), buffer(1)}, {}, {});
  EXPECT_EQ(f.assign().storages.size(), 2u);
}

TEST(AssignStorages, AnInputThatTheStepReadsTwiceKeepsItsBytes) {
  BuffersOfSteps f;
  f.add_buffer(64, 0, 1), f.add_buffer(64, 1, 1);
  f.add_step({}, {buffer(0)}, {});
  f.add_step({buffer(0), buffer(0)}, {buffer(1)}, {{0, 0}, {1, 0}});
  EXPECT_EQ(f.assign().storages.size(), 2u);
}

TEST(AssignStorages, OtherSizesKeepTheirBytes) {
  BuffersOfSteps f;
  f.add_buffer(64, 0, 1), f.add_buffer(32, 1, 1);
  f.add_step({}, {buffer(0)}, {});
  f.add_step({buffer(0)}, {buffer(1)}, {{0, 0}});
  EXPECT_EQ(f.assign().storages.size(), 2u);
}

TEST(AssignStorages, OnlyPairsThatTheKernelAllowsShare) {
  BuffersOfSteps f;
  f.add_buffer(64, 0, 2), f.add_buffer(64, 1, 2), f.add_buffer(64, 2, 2);
  f.add_step({}, {buffer(0)}, {});
  f.add_step({}, {buffer(1)}, {});
  f.add_step({buffer(0), buffer(1)}, {buffer(2)}, {{1, 0}});
  const StorageAssignment storage = f.assign();
  ASSERT_EQ(storage.storages.size(), 2u);
  EXPECT_EQ(storage.storage_of_buffer[1], storage.storage_of_buffer[2]);
}

TEST(AssignStorages, AnInputIsTakenOverByOneOutputOnly) {
  BuffersOfSteps f;
  f.add_buffer(64, 0, 1), f.add_buffer(64, 1, 1), f.add_buffer(64, 1, 1);
  f.add_step({}, {buffer(0)}, {});
  f.add_step({buffer(0)}, {buffer(1), buffer(2)}, {{0, 0}, {0, 1}});
  const StorageAssignment storage = f.assign();
  ASSERT_EQ(storage.storages.size(), 2u);
  EXPECT_NE(storage.storage_of_buffer[1], storage.storage_of_buffer[2]);
}

TEST(AssignStorages, AnOutputTakesOverOneInputOnly) {
  BuffersOfSteps f;
  f.add_buffer(64, 0, 2), f.add_buffer(64, 1, 2), f.add_buffer(64, 2, 2);
  f.add_step({}, {buffer(0)}, {});
  f.add_step({}, {buffer(1)}, {});
  f.add_step({buffer(0), buffer(1)}, {buffer(2)}, {{0, 0}, {1, 0}});
  const StorageAssignment storage = f.assign();
  ASSERT_EQ(storage.storages.size(), 2u);
  EXPECT_EQ(storage.storage_of_buffer[0], storage.storage_of_buffer[2]) << "the first pair of the kernel's list";
}

TEST(AssignStorages, VariablesAreNeverTakenOver) {
  BuffersOfSteps f;
  f.add_buffer(64, 0, 0);
  f.add_step({{Operand::Kind::variable, 0}}, {buffer(0)}, {{0, 0}});
  EXPECT_EQ(f.assign().storages.size(), 1u);
}

TEST(AssignStorages, AKeptOutputOfAReplayTakesNothingOver) {
  BuffersOfSteps f;
  f.add_buffer(64, 0, 1), f.add_buffer(64, 0, 1);
  f.add_step({}, {buffer(0), buffer(1)}, {});
  f.add_step({buffer(0)}, {buffer(1)}, {{0, 0}});  // buffer 1 has been written before
  EXPECT_EQ(f.assign().storages.size(), 2u);
}

TEST(AssignStorages, GuardsAreAddedOncePerStorageAndNotToEmptyOnes) {
  BuffersOfSteps f;
  f.add_buffer(64, 0, 1), f.add_buffer(64, 1, 1), f.add_buffer(0, 1, 1);
  f.add_step({}, {buffer(0)}, {});
  f.add_step({buffer(0)}, {buffer(1), buffer(2)}, {{0, 0}});
  const StorageAssignment storage = f.assign(32);
  ASSERT_EQ(storage.storages.size(), 2u);
  EXPECT_EQ(storage.storages[static_cast<std::size_t>(storage.storage_of_buffer[0])].bytes, 96u);
  EXPECT_EQ(storage.storages[static_cast<std::size_t>(storage.storage_of_buffer[2])].bytes, 0u);
}

}  // namespace
}  // namespace sectionflow
