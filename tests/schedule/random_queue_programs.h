#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "base/bytes.h"
#include "tests/support/emulated_device.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_rests.h"

namespace sectionflow {

/// Calls use(program) for training programs of random models on a GPU that the host plays, some of whose tensors rest.
template <class Use>
void for_each_random_queue_program(const Use& use) {
  using namespace testing_support;
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    for (const double share : {0.0, 0.3}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", share of rests " << share);
      const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu});
      TrainableRandomModel t({.seed = seed});
      Session session(t.graph, {.device = cuda(), .device_memory = 8_MiB, .disk = 8_MiB, .check_schedules = true});
      session.set_script_editor("random rests", [&](Script script, PlanningTools& tools) {
        return rest_at_random(script, tools, seed, share, true);
      });
      const RandomBatch batch = random_batch(t.model, 3, seed);
      use(session.whole_program({t.model.loss}, batch.types(t.model), t.training));
    }
  }
}

}  // namespace sectionflow
