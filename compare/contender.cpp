#include "compare/contender.h"

#include "base/error.h"

namespace sectionflow {

Contender::Contender(const Strategy& strategy, const SessionOptions& options, std::int64_t batch)
    : strategy_(strategy) {
  manager_ = std::make_unique<GraphSectionManager>(graph_);
  model_ = strategy_.build(graph_, *manager_);
  if (strategy_.sections) manager_->set_section_options(*strategy_.sections);
  if (strategy_.profile) manager_->set_profile(*strategy_.profile);
  session_ = std::make_unique<Session>(graph_, options);
  const TierBudgets& budgets = session_->budgets();
  if (strategy_.edit_graph) {
    strategy_.edit_graph(graph_, {.batch = batch, .device_memory = budgets.device, .host_memory = budgets.host});
  }
  if (strategy_.edit_session) strategy_.edit_session(*session_);
}

ProgramReport Contender::plan(const FeedTypes& types) {
  return strategy_.whole_graph ? session_->plan({model_.loss}, types, {.targets = manager_->training_operations()})
                               : manager_->plan(*session_, {model_.loss}, types);
}

HostTensor Contender::step(const Batch& batch) {
  const Feeds feeds = model_.feeds(batch);
  if (strategy_.whole_graph) {
    auto [loss] = session_->run({model_.loss}, feeds, {.targets = manager_->training_operations()});
    return std::move(loss);
  }
  auto [loss] = manager_->run_full_cycle(*session_, {model_.loss}, feeds);
  return std::move(loss);
}

bool is_misfit(const Error& error) {
  return error.code() == ErrorCode::budget || error.code() == ErrorCode::lms_tuning;
}

std::string first_line(const Error& error) {
  return error.message().substr(0, error.message().find('\n'));
}

std::string misfit_of(const ProgramReport& report) {
  if (report.fits) return {};
  try {
    throw_budget_error(report);
  } catch (const BudgetError& error) {
    return first_line(error);
  }
}

}  // namespace sectionflow
