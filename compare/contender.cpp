#include "compare/contender.h"

#include "base/error.h"

namespace sectionflow {

Contender::Contender(const Strategy& strategy, const SessionOptions& options, std::int64_t batch)
    : strategy_(strategy) {
  manager_ = std::make_unique<GraphSectionManager>(graph_);
  if (strategy_.cuts) {
    PlaceCutsOptions cuts = *strategy_.cuts;
    cuts.batch = batch;
    cuts.session = options;
    manager_->place_cuts(cuts);
  }
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

FeedTypes types_of_size(const TrainableModel& model, const std::function<Batch(std::int64_t size)>& batch,
                        std::int64_t size) {
  FeedTypes types = types_of(model.feeds(batch(1)));
  const FeedTypes of_two = types_of(model.feeds(batch(2)));
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i].boolean) continue;
    std::vector<std::int64_t> dims;
    for (int axis = 0; axis < types[i].shape.rank(); ++axis) {
      const std::int64_t one = types[i].shape[axis], two = of_two[i].shape[axis];
      dims.push_back(one + (two - one) * (size - 1));
    }
    types[i].shape = Shape(dims);
  }
  return types;
}

bool is_misfit(const Error& error) {
  return error.code() == ErrorCode::budget || error.code() == ErrorCode::lms_tuning ||
         error.code() == ErrorCode::cuts_misfit;
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
