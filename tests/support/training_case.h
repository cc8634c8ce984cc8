#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "runtime/session.h"
#include "sections/graph_section_manager.h"
#include "train/compare_strategies.h"

namespace sectionflow::testing {

/// A tensor of f32 numbers in [-1, 1), or of classes in [0, num_classes), that depends on the arguments alone.
HostTensor random_images(Shape shape, std::uint64_t seed, std::int64_t step);
HostTensor random_classes(std::int64_t count, int num_classes, std::uint64_t seed, std::int64_t step);

/// Tensors that feeds point into.
using FeedStore = std::vector<HostTensor>;

/// A network that is ready to train.
struct TrainingNet {
  Value loss;
  /// The feeds of a step; their tensors are put into the store.
  std::function<Feeds(std::int64_t step, FeedStore& store)> feeds;
  /// When set, run between training steps, with the feeds of the same step.
  std::vector<Value> evaluated{};
};

/// A network to be trained by several strategies.
struct TrainingCase {
  std::string name;
  /// Opens sections, adds training operations and prepares the manager.
  std::function<TrainingNet(Graph&, GraphSectionManager&)> build;
};

enum class How { whole, sections, halves };

struct TrainOptions {
  std::int64_t steps = 20;
  int threads = 2;
  std::uint64_t seed = 7;
  bool poison = false;
};

/// Trains from scratch; checks every compiled schedule, and that the measured peak equals the planned one in each step.
TrainingState train(const TrainingCase& training_case, How how, const TrainOptions& options = {});

/// Expects the same bytes of all variables and losses from whole-graph training, sections, and halves run apart, and
/// that training has changed something.
void expect_exact(const TrainingCase& training_case, const TrainOptions& options = {});

}  // namespace sectionflow::testing
