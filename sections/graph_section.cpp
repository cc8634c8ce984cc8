#include "sections/graph_section.h"

#include <algorithm>

#include "base/error.h"
#include "graph/ops/basic.h"
#include "sections/section_trainer.h"

namespace sectionflow {
namespace {

void check_choice(const GraphSection& section, const Graph& graph, const std::vector<Value>& chosen,
                  const std::vector<Value>& required, const char* call) {
  for (const Value& value : chosen) {
    SF_CHECK(value.valid() && &value.graph() == &graph, ArgumentError, call, " of section ", section.index(), ": '",
             value.valid() ? value.name() : "", "' does not belong to the graph of the section");
  }
  for (const Value& value : required) {
    SF_CHECK(std::find(chosen.begin(), chosen.end(), value) != chosen.end(), ArgumentError, call, " of section ",
             section.index(), ": '", value.name(), "' is missing, which the section cannot do without");
  }
}

}  // namespace

void GraphSection::Choice::set(std::vector<Value> values, Hold hold) {
  (hold == Hold::always ? always : next) = std::move(values);
  has_next = has_next || hold == Hold::next_cycle;
}

std::string GraphSection::place() const {
  const std::string where = where_.text();
  return graph_->group_name(group_) + (where.empty() ? "" : ", ") + where;
}

const SectionOptions& GraphSection::options() const {
  return options_ ? *options_ : trainer_->default_options_;
}

std::vector<Operation> GraphSection::operations() const {
  std::vector<Operation> operations;
  for (NodeId id = 0; id < graph_->num_nodes(); ++id) {
    Node& node = graph_->node(id);
    const bool is_model = node.phase() == Phase::model && node.op().recompute != Recompute::once;
    if (node.group() == group_ && is_model && !node.op().is_variable()) operations.push_back(Operation(node));
  }
  return operations;
}

std::vector<Value> GraphSection::values(std::string_view collection) const {
  return graph_->values(collection, group_);
}
std::vector<Operation> GraphSection::operations(std::string_view collection) const {
  return graph_->operations(collection, group_);
}

const SectionBoundary& GraphSection::boundary() const {
  trainer_->check_prepared("the boundary of a section");
  trainer_->map_graph();
  return trainer_->boundaries_[static_cast<std::size_t>(index_)];
}

const std::vector<Value>& GraphSection::incoming() const {
  return boundary().incoming;
}
const std::vector<Value>& GraphSection::tensors_to_feed() const {
  return boundary().tensors_to_feed;
}
const std::vector<Value>& GraphSection::tensors_to_cache() const {
  return boundary().tensors_to_cache;
}

const std::vector<Operation>& GraphSection::training_operations() const {
  trainer_->check_prepared("training_operations()");
  trainer_->map_graph();
  return trainer_->section_training_[static_cast<std::size_t>(index_)];
}

void GraphSection::choose(Choice GraphSection::*choice, std::vector<Value> values, Hold hold) {
  trainer_->when_rolled_back([this, choice, before = this->*choice]() mutable {
    std::swap(this->*choice, before);
    trainer_->note_held_choice();
  });
  (this->*choice).set(std::move(values), hold);
  trainer_->note_held_choice();
}

void GraphSection::set_tensors_to_feed(std::vector<Value> values, Hold hold) {
  check_choice(*this, *graph_, values, tensors_to_feed(), "set_tensors_to_feed");
  std::vector<Value> extra;
  for (const Value& value : values) {
    if (std::find(tensors_to_feed().begin(), tensors_to_feed().end(), value) != tensors_to_feed().end()) continue;
    SF_CHECK(trainer_->map_.is_forward(value.node().id()) && !is_variable(value) && value.node().op().has_kernel,
             ArgumentError, "set_tensors_to_feed of section ", index_, ": '", value.name(),
             "' is not computed in the forward pass");
    extra.push_back(value);
  }
  choose(&GraphSection::feed_, std::move(extra), hold);
}

void GraphSection::set_tensors_to_cache(std::vector<Value> values, Hold hold) {
  check_choice(*this, *graph_, values, tensors_to_cache(), "set_tensors_to_cache");
  std::vector<Value> extra;
  for (const Value& value : values) {
    if (std::find(tensors_to_cache().begin(), tensors_to_cache().end(), value) != tensors_to_cache().end()) continue;
    SF_CHECK(!trainer_->map_.is_forward(value.node().id()) && value.node().op().has_kernel, ArgumentError,
             "set_tensors_to_cache of section ", index_, ": '", value.name(), "' is not computed in a backward run");
    extra.push_back(value);
  }
  choose(&GraphSection::cache_, std::move(extra), hold);
}

}  // namespace sectionflow
