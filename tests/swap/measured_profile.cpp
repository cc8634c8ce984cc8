// Profiles that are measured, kept in a file, and know what another program needs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "compare/contender.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "swap/measure_profile.h"
#include "swap/scratch_places.h"
#include "tests/support/emulated_device.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_model.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// A session of the tiny model, of whose training programs are measured.
class MeasuredModel {
 public:
  explicit MeasuredModel(const SessionOptions& options) : session_(graph_, options), manager_(graph_) {
    model_ = build_tiny(graph_, manager_, 0, Adam{});
    session_.initialize();
  }
  /// Of a batch's training step, for which the session may have too little memory.
  Profile measure(std::int64_t batch) {
    return measure_profile(session_, {model_.loss}, types_of(model_.feeds(tiny_batch(0, batch))),
                           {.targets = manager_.training_operations()}, 1);
  }
  std::size_t peak(std::int64_t batch) {
    return session_
        .plan({model_.loss}, types_of(model_.feeds(tiny_batch(0, batch))), {.targets = manager_.training_operations()})
        .planned_peak_bytes;
  }
  Profile load_or_measure(const std::string& path, std::int64_t batch, int repeats = 1) {
    return load_or_measure_profile(path, session_, {model_.loss}, types_of(model_.feeds(tiny_batch(0, batch))),
                                   {.targets = manager_.training_operations()}, repeats);
  }

 private:
  Graph graph_;
  Session session_;
  GraphSectionManager manager_;
  TrainableModel model_;
};

class MeasuredProfile : public testing::TestWithParam<DeviceKind> {
 protected:
  MeasuredProfile() {
    if (GetParam() == DeviceKind::cuda) emulated_.emplace(EmulatedOptions{.kernels = EmulatedKernels::cpu});
  }
  SessionOptions options() const { return {.device = {.kind = GetParam()}, .device_memory = 8_MiB}; }
  std::string path() const { return (folder_.path() / "machine.json").string(); }
  std::string content() const {
    std::ifstream stream(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

 private:
  std::optional<EmulatedCuda> emulated_;
  TemporaryFolder folder_;
};

TEST_P(MeasuredProfile, IsMeasuredOnceForAProgram) {
  MeasuredModel model(options());
  const Profile measured = model.load_or_measure(path(), 6);
  EXPECT_FALSE(measured.kernel_seconds.empty());
  for (const auto& [kernel, seconds] : measured.kernel_seconds) EXPECT_GE(seconds, 0) << kernel;
  const std::string written = content();
  EXPECT_EQ(model.load_or_measure(path(), 6), measured);
  EXPECT_EQ(content(), written);
}

TEST_P(MeasuredProfile, LearnsTheKernelsOfAnotherProgramAndKeepsWhatItKnows) {
  MeasuredModel model(options());
  const Profile first = model.load_or_measure(path(), 6), second = model.load_or_measure(path(), 4);
  EXPECT_GT(second.kernel_seconds.size(), first.kernel_seconds.size());
  for (const auto& known : first.kernel_seconds) EXPECT_THAT(second.kernel_seconds, testing::Contains(known));
  EXPECT_EQ(second.link_out, first.link_out);
  EXPECT_EQ(second.link_in, first.link_in);
  EXPECT_EQ(Profile::load(path()), second);
}

TEST_P(MeasuredProfile, IsRefusedWhereTheFileIsDamagedAndTheFileStays) {
  MeasuredModel model(options());
  std::ofstream(path()) << "damaged";
  EXPECT_THROW(model.load_or_measure(path(), 6), DataError);
  EXPECT_EQ(content(), "damaged");
  EXPECT_THROW(model.load_or_measure(path() + ".new", 6, 0), ArgumentError);
}

TEST(MeasuredKernels, AreAllKnownInLessMemoryThanTheStepTakesAndSoIsTheDragOfCopyThreads) {
  SessionOptions options{.device_memory = 8_MiB, .host_memory = 8_MiB, .copy_threads = true};
  MeasuredModel whole(options);
  const Profile of_whole = whole.measure(64);
  EXPECT_GE(of_whole.copy_drag, 0);
  EXPECT_LT(of_whole.copy_drag, 1e-6) << "seconds a byte";
  const std::size_t peak = whole.peak(64);
  for (const int percent : {95, 80}) {
    options.device_memory = peak / 100 * static_cast<std::size_t>(percent);
    const Profile tight = MeasuredModel(options).measure(64);
    EXPECT_EQ(tight.kernel_seconds.size(), of_whole.kernel_seconds.size()) << percent << " %";
    for (const auto& [kernel, seconds] : tight.kernel_seconds) EXPECT_TRUE(of_whole.kernel_seconds.contains(kernel));
  }
  options.copy_threads = false;
  EXPECT_EQ(MeasuredModel(options).measure(64).copy_drag, 0);
}

TEST(CopyBlocks, GoRoundAsManyAsTheRegionHasRoomFor) {
  std::vector<std::byte> region(100);
  CopyBlocks blocks(region, 30, 4);
  EXPECT_EQ(blocks.count(), 3U);
  const std::byte* const host = blocks.next().host;
  for (const std::size_t offset : {30, 60, 0, 30}) {
    const CopyBlocks::Pair pair = blocks.next();
    EXPECT_EQ(pair.device, region.data() + offset);
    EXPECT_EQ(pair.host, host + offset);
  }
  EXPECT_EQ(CopyBlocks(region, 10, 4).count(), 4U);
  EXPECT_EQ(CopyBlocks(region, 200, 4).bytes(), 100U);
  EXPECT_EQ(CopyBlocks({}, 30, 4).count(), 0U);
}

TEST(MeasuredKernels, OfAGpuDrawRandomNumbers) {
  const EmulatedCuda emulated(EmulatedOptions{.kernels = EmulatedKernels::cuda});
  Graph graph;
  const Value training = constant(graph, HostTensor::scalar(true));
  const Value loss = mean(square(dropout(fill(graph, {64}, 1.0F), training, {.rate = 0.5F})));
  Session session(graph, {.device = cuda(), .device_memory = 1_MiB});
  session.initialize();
  const Profile profile = measure_profile(session, {loss}, {}, {}, 1);
  EXPECT_THAT(profile.kernel_seconds, testing::Contains(testing::Key(testing::HasSubstr("dropout"))));
}

INSTANTIATE_TEST_SUITE_P(Devices, MeasuredProfile, testing::Values(DeviceKind::cpu, DeviceKind::cuda),
                         [](const auto& info) { return info.param == DeviceKind::cpu ? "cpu" : "emulated"; });

}  // namespace
}  // namespace sectionflow
