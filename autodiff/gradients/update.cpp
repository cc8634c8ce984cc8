#include "autodiff/gradient_registry.h"

namespace sectionflow {

// Updates give no value that a loss could depend on.
void add_update_gradients(GradientRegistry& registry) {
  registry.add_refused("accumulated", "it sums gradients over micro-batches, of which those before are no longer there",
                       "differentiate the gradients of one micro-batch, which compute_gradients gives");
  for (const char* op :
       {"all_reduced", "all_gathered", "of_last_rank", "gathered_variable", "reduced_shard", "norm_of_shards"}) {
    registry.add_refused(op, "other ranks have made it what it is, and would have to differentiate it too",
                         "differentiate what this rank gives, before ranks have it in common");
  }
}

}  // namespace sectionflow
