// Automatic interiors and borders: more memory of either kind never makes a slower cycle, nor one that does not fit.

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "examples/models/zoo.h"
#include "tests/support/budget_grid.h"
#include "tests/support/training_spec.h"

namespace sectionflow::testing {
namespace {

struct Road {
  const char* name;
  SessionOptions session;  ///< who carries, how fast, and whether there is a disk
  friend void PrintTo(const Road& road, std::ostream* stream) { *stream << road.name; }
};

const std::vector<Road>& roads() {
  static const std::vector<Road> all = {
      {"Team", {}},
      {"Threads", {.copy_threads = true, .link_bandwidth = 200e6}},
      {"DiskByThreads", {.disk = 64_MiB, .copy_threads = true, .link_bandwidth = 1e9}},
  };
  return all;
}

class MonotoneCycles : public ::testing::TestWithParam<Road> {
 protected:
  static SectionOptions automatic() {
    return {.borders = BorderPolicy::automatic, .interior = InteriorPolicy::automatic};
  }
  SessionOptions in_budgets(std::size_t device, std::size_t host) const {
    SessionOptions options = GetParam().session;
    options.device_memory = device;
    options.host_memory = host;
    options.threads = 1;
    return options;
  }
  /// From below the least to what everything needs; the host, from next to nothing on.
  static int expect(const PlanInBudgets& plan, int devices, int hosts) {
    const std::size_t whole = plan(1_GiB, 1_GiB).planned_peak_bytes, least = plan(1, 1_GiB).planned_peak_bytes;
    return expect_monotone(plan, even_steps(least - least / 50, whole, devices), even_steps(1, whole, hosts));
  }
};

TEST_P(MonotoneCycles, OfRandomNetworks) {
  int fitting = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    TrainingSpec spec = random_spec(seed);
    spec.sections = automatic();
    spec.sections_differ = false;
    spec.micro_batches = 1;  // of several programs the fullest is planned by, which is another in another budget
    const TrainingCase net = training_case(spec);
    fitting += expect(
        [&](std::size_t device, std::size_t host) {
          Graph graph;
          GraphSectionManager manager(graph);
          const TrainingNet built = net.build(graph, manager);
          FeedStore store;
          Session session(graph, in_budgets(device, host));
          return manager.plan(session, {built.loss}, types_of(built.feeds(0, store)));
        },
        7, 4);
  }
  EXPECT_GT(fitting, 3 * 7);
}

TEST_P(MonotoneCycles, OfAResidualNetworkInBlocks) {
  const ZooModel model = zoo_model("mnist_resnet", {.cut = cut_named("blocks")});
  const PlanInBudgets plan = [&](std::size_t device, std::size_t host) {
    Graph graph;
    GraphSectionManager manager(graph);
    const TrainableModel net = model.build(graph, manager);
    manager.set_section_options(automatic());
    Session session(graph, in_budgets(device, host));
    return manager.plan(session, {net.loss}, types_of(net.feeds(model.batch({.batch = 8, .seed = 1, .step = 0}))));
  };
  EXPECT_GT(expect(plan, 5, 3), 5);
}

INSTANTIATE_TEST_SUITE_P(Roads, MonotoneCycles, ::testing::ValuesIn(roads()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sectionflow::testing
