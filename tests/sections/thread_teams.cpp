// A step ends, and with the same bits, whatever OpenMP was told; or it is refused. Where a team is smaller than the one
// that kernels were made for, oneDNN waits for ever: each claim is checked in a process of its own that an alarm ends.

#include <gtest/gtest.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "device/cpu_device.h"
#include "tests/sections/small_net.h"

namespace sectionflow::testing {
namespace {

constexpr unsigned kMostSeconds = 120;

/// Whether `body` says true, in time. The process starts anew, without the threads of this one.
#define EXPECT_SOON(body) EXPECT_EXIT(end_with(body), ::testing::ExitedWithCode(0), "")

template <class Body>
[[noreturn]] void end_with(const Body& body) {
  alarm(kMostSeconds);
  std::_Exit(body() ? 0 : 1);
}

class ThreadTeams : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// A network with convolutions wide enough for oneDNN to have threads wait for each other.
struct Trained {
  explicit Trained(int threads) {
    const Value images = placeholder(graph, "images", {16, 12, 12, 3});
    Value x = images;
    for (int k = 0; k < 2; ++k) {
      auto section = manager.new_section();
      x = relu(conv2d(x, {.features = 32}));
      if (k == 1) loss = mean(x * x);
    }
    manager.add_training_ops(Sgd{.learning_rate = 1e-2F}, loss);
    manager.prepare_training();
    session = std::make_unique<Session>(graph, SessionOptions{.device_memory = 64_MiB, .threads = threads});
    feeds = {{images, data}};
  }
  void initialize() { session->initialize(); }
  void step() { (void)manager.run_full_cycle(*session, {loss}, feeds); }
  TrainingState state() { return {read_variables(*session), {}}; }

  Graph graph;
  GraphSectionManager manager{graph};
  Value loss;
  HostTensor data = random_images({16, 12, 12, 3}, 5, 0);
  Feeds feeds;
  std::unique_ptr<Session> session;
};

TrainingState trained(int threads) {
  Trained t(threads);
  t.initialize();
  for (int i = 0; i < 2; ++i) t.step();
  return t.state();
}

/// More than a dynamic team ever has.
int many_threads() {
  return available_cores() + 1;
}

TEST_F(ThreadTeams, DynamicTeamsTrainTheSameBits) {
  EXPECT_SOON([] {
    const TrainingState usual = trained(many_threads());
    omp_set_dynamic(1);
    return first_difference(usual, trained(many_threads())).empty() && omp_get_dynamic() != 0;
  });
}

TEST_F(ThreadTeams, ASessionIsUsedByOtherThreadsThanTheOneThatMadeIt) {
  EXPECT_SOON([] {
    const TrainingState usual = trained(2);
    Trained t(2);
    t.initialize();
    for (int i = 0; i < 2; ++i) {
      std::thread([&] {
        omp_set_dynamic(i);
        omp_set_num_threads(1);
        t.step();
      }).join();
    }
    return first_difference(usual, t.state()).empty();
  });
}

TEST_F(ThreadTeams, SessionsOfSeveralThreadsTrainBesideEachOther) {
  EXPECT_SOON([] {
    const TrainingState usual = trained(2);
    std::vector<std::string> differences(3);
    std::vector<std::thread> threads;
    for (std::string& difference : differences) {
      threads.emplace_back([&] {
        omp_set_dynamic(1);
        difference = first_difference(usual, trained(2));
      });
    }
    for (std::thread& thread : threads) thread.join();
    return std::all_of(differences.begin(), differences.end(), [](const std::string& text) { return text.empty(); });
  });
}

/// Whether the call is refused in a parallel region.
template <class Call>
bool is_refused_inside(const Call& call) {
  bool refused = false;
#pragma omp parallel num_threads(2)
#pragma omp single
  {
    try {
      call();
    } catch (const DeviceError& error) {
      refused = std::string(error.what()).find("parallel region") != std::string::npos;
    }
  }
  return refused;
}

TEST_F(ThreadTeams, ACallFromInsideOfAParallelRegionIsRefusedAndTheSessionIsAsBefore) {
  EXPECT_SOON([] {
    const TrainingState usual = trained(2);
    omp_set_dynamic(0);
    omp_set_max_active_levels(2);
    // Without a second thread no region is parallel.
    if (omp_get_thread_limit() < 2) return true;
    Trained t(2);
    bool refused = is_refused_inside([&] { t.initialize(); });
    t.initialize();
    refused = is_refused_inside([&] { t.step(); }) && refused;
    t.step();
    refused = is_refused_inside([&] { t.step(); }) && refused;
    // A pending half stays pending.
    (void)t.manager.run_forward(*t.session, {t.loss}, t.feeds);
    refused = is_refused_inside([&] { t.manager.run_backward(*t.session); }) && refused;
    t.manager.run_backward(*t.session);
    return refused && t.session->completed_cycles() == 2 && first_difference(usual, t.state()).empty();
  });
}

TrainingState trained_inside(int threads) {
  TrainingState state;
#pragma omp parallel num_threads(2)
#pragma omp single
  state = trained(threads);
  return state;
}

TEST_F(ThreadTeams, ASessionOfOneThreadTrainsInsideOfAParallelRegion) {
  EXPECT_SOON([] { return first_difference(trained(1), trained_inside(1)).empty(); });
}

}  // namespace
}  // namespace sectionflow::testing
