// Tensors that leave the device at random times, by any road and at any speed, change no bit and no planned byte.

#include "tests/support/random_offloads.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "runtime/engine.h"
#include "tests/support/shrink_spec.h"
#include "tests/support/training_spec.h"

namespace sectionflow::testing {
namespace {

struct Road {
  const char* name;
  SessionOptions session;  ///< who carries, and how fast
  bool disk;
  friend void PrintTo(const Road& road, std::ostream* stream) { *stream << road.name; }
};

const std::vector<Road>& roads() {
  static const std::vector<Road> all = {
      {"Team", {}, false},
      {"TeamAndDisk", {.disk = 64_MiB}, true},
      {"CopyThreads", {.copy_threads = true}, false},
      {"CopyThreadsAndDisk", {.disk = 64_MiB, .copy_threads = true}, true},
      {"DelayedThreads", {.disk = 64_MiB, .copy_threads = true, .random_delays = 77}, true},
      {"VariablesAtHome", {.swap_variables = true}, false},
      {"VariablesAtHomeByThreads",
       {.disk = 64_MiB, .swap_variables = true, .copy_threads = true, .random_delays = 5},
       true},
      {"SlowLink", {.copy_threads = true, .link_bandwidth = 50e6}, false},
  };
  return all;
}

class RandomOffloads : public ::testing::TestWithParam<Road> {};

TEST_P(RandomOffloads, ChangeNoBitOfAnyStrategy) {
  std::size_t carried = 0;
  const bool slow = GetParam().session.random_delays != 0;
  for (std::uint64_t seed = 1; seed <= (slow ? 5U : 20U); ++seed) {
    TrainingSpec spec = random_spec(seed);
    spec.budget = -1;  // who offloads at random cannot promise that more memory is never worse
    TrainOptions options = train_options(spec);
    options.session = GetParam().session;
    options.session.disk = 64_MiB;  // some of the cuts ask for it
    options.on_session = [&](How, const Graph&, Session& session) {
      engine(session).set_instruction_editor("random offloads", [&, seed](InstructionList list, PlanningTools& tools) {
        InstructionList edited = testing_support::offload_at_random(list, tools, seed, 0.6, GetParam().disk);
        carried += edited.instructions.size() - list.instructions.size();
        return edited;
      });
    };
    const auto failure = find_failure(training_case(spec), options);
    if (failure) ADD_FAILURE() << "seed " << seed << ": " << failure->text << "\n" << listing(spec);
  }
  EXPECT_GT(carried, 100U);
}
INSTANTIATE_TEST_SUITE_P(Roads, RandomOffloads, ::testing::ValuesIn(roads()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sectionflow::testing
