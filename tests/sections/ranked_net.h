#pragma once

#include "swap/lms.h"
#include "tests/sections/accumulated_net.h"
#include "tests/support/ranked_training.h"
#include "tests/support/training_spec.h"

namespace sectionflow::testing {

/// An AccumulatedNet that ranks train, by whole graphs edited by `lms` where that is given.
inline RankedCase ranked_case(int ranks, int micro_batches, const Optimizer& optimizer, TrainingOptions options,
                              const LmsOptions* lms = nullptr) {
  const auto case_of = [=](int of_ranks, int of_micro_batches) {
    return TrainingCase{
        "ranks", [=](Graph& graph, GraphSectionManager& manager) {
          const AccumulatedNet net(graph, manager);
          TrainingOptions own = options;
          own.ranks = of_ranks;
          own.micro_batches = of_micro_batches;
          if (of_ranks == 1) own.server.reset();
          manager.add_training_ops(optimizer, net.loss, own);
          manager.prepare_training();
          if (lms != nullptr) (void)Lms(*lms).run(graph);
          return TrainingNet{
              .loss = net.loss, .feeds = net.feeds(), .evaluated = {net.loss}, .micro_batches = of_micro_batches};
        }};
  };
  return {case_of, ranks, micro_batches};
}

/// Dropout, batch norm, Adam, clipping, skipping, averages.
inline RankedCase full_case(int ranks, int micro_batches = 1) {
  return ranked_case(ranks, micro_batches, Adam{.learning_rate = 1e-2F}, all_options(1));
}

/// A random spec without layers that read what the batch before has left, or that keep what a rank has for itself.
inline TrainingSpec spec_of_ranks(std::uint64_t seed) {
  TrainingSpec spec = random_spec(seed);
  std::erase_if(spec.layers, [](const LayerSpec& layer) { return layer.kind == "count"; });
  spec.smaller_last_batch = false;
  return spec;
}

}  // namespace sectionflow::testing
