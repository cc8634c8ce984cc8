// Random layered models with random cuts train to the same bytes as the whole graph.

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "tests/support/random_graph.h"
#include "tests/support/training_case.h"

namespace sectionflow::testing {
namespace {

using testing_support::build_random_model;
using testing_support::random_batch;
using testing_support::random_optimizer;
using testing_support::RandomModel;

/// The random model of a seed, cut before a random choice of its layers.
TrainingCase randomly_cut(std::uint64_t seed) {
  return {"seed " + std::to_string(seed), [seed](Graph& graph, GraphSectionManager& manager) {
            std::mt19937_64 choice(seed * 977 + 5);
            std::optional<SectionScope> section;
            // Some models begin, or end, outside of all sections.
            const bool starts_outside = choice() % 4 == 0;
            const std::uint64_t rarity = 1 + choice() % 3;
            const RandomModel model = build_random_model(graph, {.seed = seed, .at_border = [&](int layer) {
                                                                   if (layer == 0 && starts_outside) return;
                                                                   if (layer > 0 && choice() % rarity != 0) return;
                                                                   section.reset();
                                                                   section.emplace(manager.new_section());
                                                                 }});
            section.reset();
            if (manager.sections().empty()) {
              auto empty = manager.new_section();
            }
            manager.add_training_ops(random_optimizer(seed), model.loss);
            manager.prepare_training();
            return TrainingNet{
                model.loss, [model, seed](std::int64_t step, FeedStore& store) {
                  auto batch = random_batch(model, 3 + step % 2, seed + 100 * static_cast<std::uint64_t>(step));
                  store.reserve(2);
                  store.push_back(std::move(batch.images));
                  store.push_back(std::move(batch.labels));
                  return Feeds{{model.images, store[0]}, {model.labels, store[1]}, {model.is_training, true}};
                }};
          }};
}

TEST(RandomCuts, TrainToTheBytesOfTheWholeGraph) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_exact(randomly_cut(seed), {.steps = 3, .threads = static_cast<int>(1 + seed % 2)});
  }
}

}  // namespace
}  // namespace sectionflow::testing
