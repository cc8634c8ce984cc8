#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "examples/models/zoo.h"
#include "tests/support/training_case.h"

// Networks of the zoo, so small that tests plan and train them many times.
namespace sectionflow::testing {

inline ZooModel small_model(const std::string& name) {
  ZooOptions options{.optimizer = Adam{.learning_rate = 1e-4F}};
  if (name == "gpt" || name == "llama" || name == "bert_base") {
    options.layers = 2, options.width = 32, options.heads = 2, options.sequence = 16, options.vocabulary = 64;
  } else if (name.ends_with("_lm")) {
    options.layers = 2, options.width = 32, options.sequence = 16, options.vocabulary = 64;
  } else if (name == "vit_small") {
    options.image = 32, options.layers = 2, options.width = 32, options.heads = 2;
  } else if (!name.starts_with("mnist")) {
    options.image = name == "unet3d" ? 16 : name == "inception_v3" ? 75 : 32;
    options.width = 8;
  }
  return zoo_model(name, options);
}

/// Steps of two examples, each with the same.
inline TrainingCase small_case(const std::string& name) {
  return {name, [model = small_model(name)](Graph& graph, GraphSectionManager& manager) {
            const TrainableModel built = model.build(graph, manager);
            const auto batch = std::make_shared<Batch>(model.batch({.batch = 2, .seed = 1, .step = 0}));
            return TrainingNet{built.loss, [=](std::int64_t, FeedStore&) { return built.feeds(*batch); }};
          }};
}

}  // namespace sectionflow::testing
