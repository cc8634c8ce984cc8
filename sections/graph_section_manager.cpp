#include "sections/graph_section_manager.h"

#include <utility>

#include "sections/section_trainer.h"

namespace sectionflow {

GraphSectionManager::GraphSectionManager(Graph& graph, Where where)
    : trainer_(std::make_unique<SectionTrainer>(graph, where)) {}
GraphSectionManager::~GraphSectionManager() = default;

SectionScope GraphSectionManager::new_section(std::string name, Where where) {
  return trainer_->new_section(std::move(name), std::nullopt, where);
}

SectionScope GraphSectionManager::new_section(std::string name, SectionOptions options, Where where) {
  return trainer_->new_section(std::move(name), std::move(options), where);
}

void GraphSectionManager::place_cuts(const PlaceCutsOptions& options, Where where) {
  trainer_->place_cuts(options, where);
}

std::vector<SectionTraining> GraphSectionManager::restore_sections(const RestoredTrainingOptions& options,
                                                                   Where where) {
  return trainer_->restore_sections(options, where);
}

const std::vector<std::unique_ptr<GraphSection>>& GraphSectionManager::sections() const {
  return trainer_->sections();
}

std::vector<SectionTraining> GraphSectionManager::add_training_ops(const Optimizer& optimizer, Value loss,
                                                                   const TrainingOptions& options, Where where) {
  return trainer_->add_training_ops(optimizer, loss, options, where);
}

std::vector<SectionTraining> GraphSectionManager::add_training_ops(const Optimizer& optimizer,
                                                                   const std::vector<GradientAndVariable>& gradients,
                                                                   const TrainingOptions& options, Where where) {
  return trainer_->add_training_ops(optimizer, gradients, options, where);
}

std::vector<SectionTraining> GraphSectionManager::add_training_ops(const std::vector<ParameterGroup>& groups,
                                                                   Value loss, const TrainingOptions& options,
                                                                   Where where) {
  return trainer_->add_training_ops(groups, loss, options, where);
}

const Updates& GraphSectionManager::updates() const {
  return trainer_->updates();
}

const std::vector<Operation>& GraphSectionManager::training_operations() const {
  return trainer_->training_operations();
}

void GraphSectionManager::prepare_training(Where where) {
  trainer_->prepare_training(where);
}

bool GraphSectionManager::is_prepared() const {
  return trainer_->is_prepared();
}

void GraphSectionManager::set_profile(Profile profile) {
  trainer_->set_profile(std::move(profile));
}

void GraphSectionManager::set_section_options(SectionOptions options, Where where) {
  trainer_->set_section_options(std::move(options), where);
}

std::vector<HostTensor> GraphSectionManager::full_cycle(Session& session, const std::vector<Value>& fetches,
                                                        const Feeds& feeds, const CycleOptions& options, Where where) {
  return trainer_->full_cycle(engine(session), fetches, feeds, options, where);
}

std::vector<HostTensor> GraphSectionManager::forward_pass(Session& session, const std::vector<Value>& fetches,
                                                          const Feeds& feeds, const CycleOptions& options,
                                                          Where where) {
  return trainer_->forward_pass(engine(session), fetches, feeds, options, where);
}

std::vector<std::vector<HostTensor>> GraphSectionManager::backward_pass(Session& session,
                                                                        const std::vector<std::vector<Value>>& fetches,
                                                                        const CycleOptions& options, Where where) {
  return trainer_->backward_pass(engine(session), fetches, options, where);
}

void GraphSectionManager::discard_forward(Session& session) {
  engine(session).discard_forward_half();
}

ProgramReport GraphSectionManager::plan(Session& session, const std::vector<Value>& fetches, const FeedTypes& feeds,
                                        Where where) {
  return trainer_->plan(engine(session), fetches, feeds, where);
}

SectionIndex GraphSectionManager::evaluated_in(Value fetch) const {
  return trainer_->evaluated_in(fetch);
}

SectionRuns GraphSectionManager::runs(int index) const {
  return trainer_->runs(index);
}

const std::vector<GradientSummary>& GraphSectionManager::gradient_summaries() const {
  return trainer_->gradient_summaries();
}

}  // namespace sectionflow
