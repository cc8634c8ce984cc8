#pragma once

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

/// The first line of what a program that does not fit is refused with.
std::string misfit_of(const ProgramReport& report);
/// Whether an error says that a strategy does not fit the budgets, be it that its planner finds nothing that does.
bool is_misfit(const Error& error);
/// The first line of an error's sentence.
std::string first_line(const Error& error);

}  // namespace sectionflow
