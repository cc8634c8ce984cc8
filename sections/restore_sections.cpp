// Sections of a graph that another manager has built.

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/nodes/shards.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "schedule/micro_batches.h"
#include "sections/noted_options.h"
#include "sections/section_trainer.h"

namespace sectionflow {
namespace {

/// The name of a section by that of its group, "section 3 'head'" or "section 3"; a group of another origin has its
/// own.
std::string name_of_section(const std::string& group, int index) {
  const std::string number = "section " + std::to_string(index), begin = number + " '";
  if (group.size() > begin.size() && group.starts_with(begin) && group.ends_with('\''))
    return group.substr(begin.size(), group.size() - begin.size() - 1);
  return group.empty() ? number : group;
}

[[noreturn]] void refuse(const std::string& why) {
  throw DataError(
      error_text_of("restore_sections: ", why, hint("save the graph once more, or build it by its program")),
      ErrorCode::graph_file);
}

/// The values of a collection, two and two.
std::vector<std::pair<Value, Value>> pairs_of(const Graph& graph, std::string_view collection) {
  const std::vector<Value> values = graph.values(collection);
  if (values.size() % 2 != 0) refuse(text_of("the collection '", collection, "' has ", values.size(), " values"));
  std::vector<std::pair<Value, Value>> pairs;
  for (std::size_t i = 0; i < values.size(); i += 2) pairs.emplace_back(values[i], values[i + 1]);
  return pairs;
}

/// The last value of a collection; none where it is empty.
Value scalar_of(const Graph& graph, std::string_view collection, Dtype dtype) {
  const std::vector<Value> values = graph.values(collection);
  if (values.empty()) return {};
  const Value last = values.back();
  const TensorType wanted{dtype, {}};
  if (last.type() != wanted)
    refuse(text_of("'", last.name(), "' of '", collection, "' is ", last.type().text(), "; wanted ", wanted.text()));
  return last;
}

/// Of a variable whose updates are of a shard a rank has its shard of the gradient too.
TensorType type_of_gradient(Value variable) {
  return updated_for(variable).type();
}

}  // namespace

/// Says in the graph what this manager trains, so that one over the graph in a file can go on.
void SectionTrainer::note_training() const {
  const auto outside = graph_->enter_group(kNoGroup);
  for (Operation operation : training_.list()) graph_->add_to_collection(kSectionTraining, operation);
  const auto add = [&](std::string_view collection, Value value) {
    if (value.valid()) graph_->add_to_collection(collection, value);
  };
  for (const auto& [gradient, variable] : updates_.gradients) {
    add(kSectionGradients, gradient);
    add(kSectionGradients, variable);
  }
  for (const auto& [variable, average] : updates_.averages) {
    add(kSectionAverages, variable);
    add(kSectionAverages, average);
  }
  add(kSectionNorm, updates_.norm);
  add(kSectionSkipped, updates_.skipped_updates);
  add(kSectionMicroBatch, updates_.micro_batch);
}

/// Finds what note_training has said, of which a file may say anything.
void SectionTrainer::find_training() {
  std::vector<Operation> training = graph_->operations(kSectionTraining);
  const std::vector<Value> losses = graph_->values(kSectionLoss);
  if (training.empty()) {
    training = graph_->operations(kTrainingOperations);
    const std::vector<Operation> sums = graph_->operations(kAccumulationOperations);
    training.insert(training.end(), sums.begin(), sums.end());
  }
  for (Operation operation : training) {
    if (operation.node().op().recompute != Recompute::once)
      refuse(text_of(operation.node().label(), " is to train, and updates nothing"));
  }
  Updates found;
  for (const auto& [gradient, variable] : pairs_of(*graph_, kSectionGradients)) {
    if (!is_variable(variable) || gradient.type() != type_of_gradient(variable))
      refuse(text_of("'", gradient.name(), "' is no gradient of '", variable.name(), "'"));
    found.gradients.push_back({gradient, variable});
  }
  for (const auto& [variable, average] : pairs_of(*graph_, kSectionAverages)) {
    if (!is_variable(variable) || !is_variable(average) || average.type() != variable.type())
      refuse(text_of("'", average.name(), "' is no average of '", variable.name(), "'"));
    found.averages.push_back({variable, average});
  }
  found.norm = scalar_of(*graph_, kSectionNorm, Dtype::f32);
  found.skipped_updates = scalar_of(*graph_, kSectionSkipped, Dtype::i64);
  found.micro_batch = scalar_of(*graph_, kSectionMicroBatch, Dtype::i64);
  // training_updates() notes no sections, but how gradients are accumulated.
  const std::vector<MicroBatches> accumulations = micro_batches_of(*graph_);
  if (!found.micro_batch.valid() && !accumulations.empty()) found.micro_batch = accumulations.back().index;
  found.operations = training;
  updates_ = std::move(found);
  training_.change() = std::move(training);
  if (!losses.empty()) loss_ = losses.back();
}

std::vector<SectionTraining> SectionTrainer::restore_sections(const RestoredTrainingOptions& options, Where where) {
  return user_call(where, [&] {
    SF_CHECK(sections_.empty() && training_.empty(), ArgumentError,
             "restore_sections: this manager has sections already; wanted one that has none",
             hint("make another manager for the graph when this one is gone"));
    SF_CHECK_CODE(!cuts_, ArgumentError, ErrorCode::cuts_and_scopes,
                  "restore_sections after place_cuts(), which places all sections",
                  earlier(cuts_ ? cuts_->at.text() : ""), hint("leave one of the two out"));
    SF_CHECK_CODE(graph_->num_groups() > 0, ArgumentError, ErrorCode::nothing_to_train,
                  "restore_sections: the graph has no sections",
                  hint("open some with new_section() where it is built"));
    check_options("restore_sections", options.sections);
    try {
      find_training();
      for (GroupId group = 0; group < graph_->num_groups(); ++group) {
        std::string name = name_of_section(graph_->group_name(group), group);
        const auto has_name = [&](const auto& other) { return other->name() == name; };
        if (std::any_of(sections_.begin(), sections_.end(), has_name)) name = text_of(name, " (", group, ")");
        auto own = options.own_options ? noted_options(*graph_, group) : std::nullopt;
        sections_.emplace_back(new GraphSection(*this, *graph_, group, group, std::move(name), std::move(own), where));
      }
      runs_.resize(sections_.size());
      if (training_.empty()) return std::vector<SectionTraining>(sections_.size());
      take_update_operations();
      verbose_ = options.verbose;
      keep_summaries_ = options.summaries;
      default_options_ = options.sections;
      default_source_ = {"restore_sections", where};
      map_graph();
      return count_training();
    } catch (...) {
      forget_training();
      sections_.clear();
      runs_.clear();
      throw;
    }
  });
}

}  // namespace sectionflow
