#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "fit/fit_budget.h"
#include "runtime/engine.h"
#include "tests/sections/image_nets.h"

// Networks whose programs are fitted into budgets.
namespace sectionflow::testing {

/// Options with an effort for tests.
inline FitBudgetOptions few(FitBudgetOptions options = {}) {
  if (options.effort == 0) options.effort = 300'000;
  return options;
}

/// A session and the network that it trains as a whole, or in sections.
class Fitted {
 public:
  Fitted(const TrainingCase& training_case, const SessionOptions& options, const FitBudgetOptions& fit = few())
      : manager_(graph_), net_(training_case.build(graph_, manager_)), session_(graph_, options) {
    fit_budget(session_, fit);
  }

  ProgramReport plan() {
    FeedStore store;
    const Feeds feeds = net_.feeds(0, store);
    return session_.plan({net_.loss}, types_of(feeds), {.targets = manager_.training_operations()});
  }
  /// Of what is evaluated between steps; an empty report where nothing is.
  ProgramReport plan_evaluation() {
    if (net_.evaluated.empty()) return {};
    FeedStore store;
    const Feeds feeds = net_.evaluation_feeds ? net_.evaluation_feeds(0, store) : net_.feeds(0, store);
    return session_.plan(net_.evaluated, types_of(feeds));
  }
  ProgramReport plan_cycle() {
    FeedStore store;
    return manager_.plan(session_, {net_.loss}, types_of(net_.feeds(0, store)));
  }
  /// Of a cycle that is run by halves. Needs session().initialize().
  ProgramReport plan_halves() {
    FeedStore store;
    (void)manager_.run_forward(session_, {net_.loss}, net_.feeds(0, store));
    ProgramReport report = engine(session_).pending()->report;
    manager_.discard_forward(session_);
    return report;
  }
  /// One step. Needs session().initialize().
  HostTensor run(std::int64_t step) {
    FeedStore store;
    const Feeds feeds = net_.feeds(step, store);
    return session_.run(net_.loss, feeds, {.targets = manager_.training_operations()});
  }
  /// The same in sections.
  HostTensor run_cycle(std::int64_t step) {
    FeedStore store;
    return manager_.run_full_cycle(session_, net_.loss, net_.feeds(step, store));
  }
  /// The same by halves; `between`, where there is something, is called between them.
  HostTensor run_halves(std::int64_t step, const std::function<void()>& between = {}) {
    FeedStore store;
    auto fetched = manager_.run_forward(session_, {net_.loss}, net_.feeds(step, store));
    if (between) between();
    manager_.run_backward(session_);
    return std::move(fetched[0]);
  }
  Session& session() { return session_; }
  Graph& graph() { return graph_; }
  GraphSectionManager& manager() { return manager_; }

 private:
  Graph graph_;
  GraphSectionManager manager_;
  TrainingNet net_;
  Session session_;
};

/// One thread, and every schedule checked.
inline SessionOptions checked(SessionOptions options, std::size_t device_memory) {
  options.device_memory = device_memory;
  options.threads = 1;
  options.check_schedules = true;
  return options;
}

}  // namespace sectionflow::testing
