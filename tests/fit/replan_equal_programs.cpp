// Programs of equal structure, each of which drifts.

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "sectionflow.h"
#include "tests/fit/replan_case.h"

namespace sectionflow::testing {
namespace {

/// Two towers alike on variables of their own, each trained by itself.
struct Towers {
  explicit Towers(const SessionOptions& options) : session(graph, options) {}

  Value loss_of_tower() {
    Value x = images;
    for (int i = 0; i < 4; ++i) x = tanh(dense(x, {.features = 48}));
    return mean(x * x);
  }
  HostTensor step(std::size_t tower, std::int64_t n) {
    const HostTensor drawn = images_of(n);
    return std::move(session.run({losses[tower]}, {{images, drawn}}, {.targets = training[tower]})[0]);
  }
  ProgramReport plan(std::size_t tower) {
    return session.plan({losses[tower]}, {{images, TensorType{Dtype::f32, {64, 32}}}}, {.targets = training[tower]});
  }
  static HostTensor images_of(std::int64_t n) {
    HostTensor drawn(Dtype::f32, {64, 32});
    for (std::size_t i = 0; float& each : drawn.values<float>())
      each = static_cast<float>((++i * 37 + static_cast<std::size_t>(n)) % 101) / 101;
    return drawn;
  }

  Graph graph;
  Value images = placeholder(graph, "images", {kDynamic, 32});
  std::vector<Value> losses{loss_of_tower(), loss_of_tower()};
  std::vector<std::vector<Operation>> training = trainings();
  Session session;

 private:
  std::vector<std::vector<Operation>> trainings() {
    const std::vector<Value> all = graph.values(kTrainableVariables);
    const auto half = static_cast<std::ptrdiff_t>(all.size() / 2);
    std::vector<std::vector<Operation>> of;
    for (std::ptrdiff_t i = 0; i < 2; ++i)
      of.push_back(minimize(Momentum{}, losses[static_cast<std::size_t>(i)],
                            {all.begin() + i * half, all.begin() + (i + 1) * half}));
    return of;
  }
};

TEST(ReplanOfEqualPrograms, IsMadeForEach) {
  SessionOptions options{.host_memory = 16_MiB, .threads = 1, .check_schedules = true};
  options.device_memory = Towers(options).plan(0).planned_peak_bytes / 8 * 7;
  Towers towers(options);
  fit_budget(towers.session, on_drift());
  towers.session.initialize();
  Pace pace(towers.session);
  for (int i = 0; i < kTimed + 2 * ProgramFitter::kStepsInARow + 2; ++i) {
    pace.seconds = i < kBegun ? 1 : 1.2;
    towers.step(0, i);
    towers.step(1, i);
  }
  EXPECT_EQ(towers.session.statistics().programs_replanned, 2);
  EXPECT_EQ(towers.plan(0).bytes_out, towers.plan(1).bytes_out);
  EXPECT_EQ(towers.plan(0).recomputed_operations, towers.plan(1).recomputed_operations);
}

}  // namespace
}  // namespace sectionflow::testing
