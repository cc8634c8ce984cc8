// More device memory, more host memory, or more of both: never a slower plan, and never one that does not fit.

#include <gtest/gtest.h>

#include "examples/models/zoo.h"
#include "tests/support/budget_grid.h"
#include "tests/support/training_spec.h"
#include "tests/swap/swap_case.h"

namespace sectionflow::testing {
namespace {

struct Road {
  const char* name;
  SessionOptions session;  ///< who carries, how fast, and whether there is a disk
  Profile profile;
  friend void PrintTo(const Road& road, std::ostream* stream) { *stream << road.name; }
};

/// Kernels so slow that copies can hide, links so slow that they cannot always.
const std::vector<Road>& roads() {
  static const std::vector<Road> all = {
      {"Team", {}, {}},
      {"Threads", {.copy_threads = true}, {.flops = 1e9, .memory_bandwidth = 1e8, .link_out = 2e8, .link_in = 2e8}},
      {"SlowThreads", {.copy_threads = true}, {.flops = 1e9, .memory_bandwidth = 1e9, .link_out = 1e8, .link_in = 1e8}},
      {"DiskByTeam", {.disk = 64_MiB}, {.disk_out = 2e8, .disk_in = 2e8}},
      {"DiskByThreads",
       {.disk = 64_MiB, .copy_threads = true},
       {.flops = 1e9, .memory_bandwidth = 1e9, .link_out = 2e8, .link_in = 2e8, .disk_out = 1e8, .disk_in = 1e8}},
  };
  return all;
}

class Monotone : public ::testing::TestWithParam<Road> {
 protected:
  /// A grid of budgets for one network: from below the least to the whole, and from no host memory to enough for all.
  int expect(const TrainingCase& net, int devices, int hosts) const {
    const PlanInBudgets plan = [&](std::size_t device, std::size_t host) {
      SessionOptions options = with_memory(GetParam().session, device);
      options.host_memory = host;
      return Swapped(net, options, {.profile = GetParam().profile}).plan();
    };
    const std::size_t whole = plan(1_GiB, 1_GiB).planned_peak_bytes;
    const ProgramReport least = plan(1, 1_GiB);
    const std::size_t below = least.planned_peak_bytes - least.planned_peak_bytes / 50;
    // A host budget of 0 would be all of the machine.
    return expect_monotone(plan, even_steps(below, whole, devices),
                           even_steps(1, least.planned_peak_bytes + whole, hosts));
  }
};

TEST_P(Monotone, InAGridOfBudgetsForRandomNetworks) {
  int fitting = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    fitting += expect(training_case(random_spec(seed)), 7, 4);
  }
  EXPECT_GT(fitting, 6 * 7);
}

TEST_P(Monotone, WithADiskOfAnySizeBesideOtherMemory) {
  for (std::uint64_t seed = 7; seed <= 9; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    const TrainingCase net = training_case(random_spec(seed));
    const auto plan = [&](std::size_t device, std::size_t host, std::size_t disk) {
      SessionOptions options = with_memory(GetParam().session, device);
      options.host_memory = host;
      options.disk = disk;
      return Swapped(net, options, {.profile = GetParam().profile}).plan();
    };
    const std::size_t whole = plan(1_GiB, 1_GiB, 0).planned_peak_bytes, least = plan(1, 1_GiB, 0).planned_peak_bytes;
    for (const std::size_t device : even_steps(least, whole, 3)) {
      for (const std::size_t host : {whole / 8, 1_GiB}) {
        ProgramReport before = plan(device, host, 0);
        for (const std::size_t disk : {std::size_t{1}, 1_GiB}) {
          const ProgramReport now = plan(device, host, disk);
          EXPECT_TRUE(now.fits || !before.fits) << device << " and " << host << " with a disk of " << disk;
          if (before.fits) {
            EXPECT_LE(now.predicted_seconds, before.predicted_seconds) << device << ", " << disk;
          }
          before = now;
        }
      }
    }
  }
}

TEST_P(Monotone, InAFineGridOfBudgetsForADeepNetwork) {
  EXPECT_GT(expect(deep_net(8, 4), 25, 4), 25);
}

TEST_P(Monotone, InAGridOfBudgetsForAResidualNetwork) {
  const ZooModel model = zoo_model("mnist_resnet", {});
  const PlanInBudgets plan = [&](std::size_t device, std::size_t host) {
    Graph graph;
    GraphSectionManager manager(graph);
    const TrainableModel net = model.build(graph, manager);
    SessionOptions options = with_memory(GetParam().session, device);
    options.host_memory = host;
    Session session(graph, options);
    insert_swaps(session, {.profile = GetParam().profile});
    return session.plan({net.loss}, types_of(net.feeds(model.batch({.batch = 2, .seed = 1, .step = 0}))),
                        {.targets = manager.training_operations()});
  };
  const std::size_t whole = plan(1_GiB, 1_GiB).planned_peak_bytes, least = plan(1, 1_GiB).planned_peak_bytes;
  EXPECT_GT(expect_monotone(plan, even_steps(least, whole, 5), even_steps(1, whole, 3)), 5);
}

INSTANTIATE_TEST_SUITE_P(Roads, Monotone, ::testing::ValuesIn(roads()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sectionflow::testing
