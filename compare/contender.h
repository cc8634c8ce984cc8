#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "compare/strategy.h"

namespace sectionflow {

/// One strategy with all that it trains.
class Contender {
 public:
  /// Builds model and session, and edits both as the strategy says. Throws: what building throws.
  /// `batch`: examples in a batch.
  Contender(const Strategy& strategy, const SessionOptions& options, std::int64_t batch);

  const Strategy& strategy() const { return strategy_; }
  Session& session() { return *session_; }
  GraphSectionManager& manager() { return *manager_; }
  const TrainableModel& model() const { return model_; }

  /// Plans a training step.
  ProgramReport plan(const FeedTypes& types);
  /// One training step; its loss.
  HostTensor step(const Batch& batch);

 private:
  Strategy strategy_;
  Graph graph_;
  std::unique_ptr<GraphSectionManager> manager_;
  std::unique_ptr<Session> session_;
  TrainableModel model_;
};

/// The feeds of a batch of `size` examples, without their bytes: what differs between batches of one and of two
/// examples is the number of examples.
FeedTypes types_of_size(const TrainableModel& model, const std::function<Batch(std::int64_t size)>& batch,
                        std::int64_t size);

/// The first line of what a program that does not fit is refused with.
std::string misfit_of(const ProgramReport& report);
/// Whether an error says that a strategy does not fit the budgets, be it that its planner finds nothing that does.
bool is_misfit(const Error& error);
/// The first line of an error's sentence.
std::string first_line(const Error& error);

}  // namespace sectionflow
