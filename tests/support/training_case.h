#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "compare/compare_strategies.h"
#include "runtime/session.h"
#include "sections/graph_section_manager.h"

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
  /// When set, run between training steps, with the feeds of the same step, or with `evaluation_feeds` if set.
  std::vector<Value> evaluated{};
  std::function<Feeds(std::int64_t step, FeedStore& store)> evaluation_feeds{};
  std::vector<Value> values{};  ///< of the forward pass, to look at
  int micro_batches = 1;        ///< steps that make an update
};

/// A network to be trained by several strategies.
struct TrainingCase {
  std::string name;
  /// Opens sections, adds training operations and prepares the manager.
  std::function<TrainingNet(Graph&, GraphSectionManager&)> build;
};

/// A way of training. `mixed` takes the other three in turn, step by step, in one session.
enum class How { whole, sections, halves, mixed };
const char* name_of(How how);

struct TrainOptions {
  std::int64_t steps = 20;
  int threads = 2;
  std::uint64_t seed = 7;
  bool poison = false;
  SessionOptions session{};                  ///< the rest of the session: tiers, carriers, links
  std::optional<SectionOptions> sections{};  ///< in the place of TrainingOptions::sections
  /// For training in sections and halves: percent of the way from the smallest budget to one that asks for nothing;
  /// at 0 a byte less must be refused. -1: all memory.
  int budget = -1;
  /// Called once a training, before its first step. Tests plant faults here.
  std::function<void(How, const Graph&, Session&)> on_session{};
};

/// All that a training has left behind.
struct TrainingRecord {
  struct Step {
    HostTensor loss;
    std::map<std::string, HostTensor> variables;  ///< after the step
    std::vector<HostTensor> evaluated;
  };
  std::vector<Step> steps;
  /// Promises that were broken, a line each: a measured peak or a number of recomputed operations that is not the
  /// planned one, a cycle that was not counted, a training that has changed nothing.
  std::vector<std::string> complaints;
};
/// Trains from scratch, with every compiled schedule checked and every step measured.
TrainingRecord record_training(const TrainingCase& training_case, How how, const TrainOptions& options = {});
/// The first step, and in it the first tensor, that differs in any byte, and how; empty when none does.
std::string first_difference(const TrainingRecord& a, const TrainingRecord& b);

/// A training as record_training's; a complaint fails the running test.
TrainingState train(const TrainingCase& training_case, How how, const TrainOptions& options = {});

/// What is wrong with a case. The text says all that is known.
struct Failure {
  enum class Kind { difference, complaint, exception };
  Kind kind = Kind::difference;
  std::string text;
};
/// Trains the whole graph, and by every other strategy; compares all bytes after every step. Nothing is thrown, so that
/// what fails can be tried again in a simpler form.
std::optional<Failure> find_failure(const TrainingCase& training_case, const TrainOptions& options = {});

/// Fails the running test if find_failure finds something, or if some way to offload tensors (offload_cases_for) gives
/// other bytes, breaks a budget, or asks for one that is not the smallest.
void expect_exact(const TrainingCase& training_case, const TrainOptions& options = {});

}  // namespace sectionflow::testing
