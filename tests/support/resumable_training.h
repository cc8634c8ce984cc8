#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/optimizers.h"
#include "compare/compare_strategies.h"
#include "data/batch_loader.h"
#include "runtime/session.h"
#include "sections/graph_section_manager.h"

namespace sectionflow::testing_support {

/// The strategies under which one training may go on where another has ended.
enum class Way { whole, sections, sections_and_host, sections_and_disk, swaps, lms };
inline constexpr Way kAllWays[] = {Way::whole, Way::sections, Way::sections_and_host, Way::sections_and_disk,
                                   Way::swaps, Way::lms};
const char* name_of(Way way);

/// What a ResumableTraining is made of besides its way.
struct ResumableOptions {
  std::optional<Optimizer> optimizer = Adam{.learning_rate = 1e-2F};  ///< none: a network that cannot train
  std::uint64_t seed = 7;
  std::size_t host_memory = 0;  ///< as SessionOptions
  int threads = 1;              ///< as SessionOptions
  int extra_width = 0;          ///< more filters
};

/// A small network with batch norm and dropout in three sections, shuffled images whose last batch of an epoch is
/// smaller, and a session that trains it in some way.
class ResumableTraining {
 public:
  explicit ResumableTraining(Way way, const ResumableOptions& options = {});

  /// Trains so many steps on the batches that come next.
  void train(int steps);
  /// The loss of a batch, in evaluation.
  HostTensor evaluate();
  /// Where the data go on, and going there.
  std::string position() const;
  void go_to(const std::string& position);
  /// Every variable, and the losses since it was made.
  TrainingState state();

  Graph graph;
  GraphSectionManager manager{graph};
  Value images, labels, loss;
  std::unique_ptr<Session> session;
  std::vector<HostTensor> losses;

 private:
  void build(const ResumableOptions& options);
  Batch next_batch();
  FeedTypes types() const;

  Way way_;
  LabeledImages data_;
  std::int64_t epoch_ = 0, index_ = 0;  // of the batch that comes next
};

}  // namespace sectionflow::testing_support
