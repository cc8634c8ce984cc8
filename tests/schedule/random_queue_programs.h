#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "base/bytes.h"
#include "runtime/engine.h"
#include "tests/support/emulated_device.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_offloads.h"

namespace sectionflow {

/// Calls use(program) for training programs of random models on an emulated GPU, some of whose tensors are offloaded.
template <class Use>
void for_each_random_queue_program(const Use& use) {
  using namespace testing_support;
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    for (const double share : {0.0, 0.3}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", share of offloads " << share);
      const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu});
      TrainableRandomModel t({.seed = seed});
      Session session(t.graph, {.device = cuda(), .device_memory = 8_MiB, .disk = 8_MiB, .check_schedules = true});
      engine(session).set_instruction_editor("random offloads", [&](InstructionList list, PlanningTools& tools) {
        return offload_at_random(list, tools, seed, share, true);
      });
      const RandomBatch batch = random_batch(t.model, 3, seed);
      use(engine(session).whole_program({t.model.loss}, batch.types(t.model), t.training));
    }
  }
}

}  // namespace sectionflow
