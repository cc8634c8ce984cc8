#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"
#include "sections/section_options.h"

namespace SF_API sectionflow {

class SectionTrainer;
struct SectionBoundary;

/// How long a choice of held tensors stands.
enum class Hold { next_cycle, always };

/// One part of a model: the operations, and collection entries, that were made while its scope was open. A field of the
/// nodes, not a part of their names: the same network cut otherwise has the same variables.
class GraphSection {
 public:
  int index() const { return index_; }
  const std::string& name() const { return name_; }
  GroupId group() const { return group_; }
  /// Where it was opened: "section 3 'head', model.cpp:84".
  std::string place() const;
  /// Where its tensors are kept: its own options, or those of TrainingOptions::sections.
  const SectionOptions& options() const;

  /// Its forward operations, in the order of creation.
  std::vector<Operation> operations() const;
  /// The entries of a collection that were added in its scope.
  std::vector<Value> values(std::string_view collection) const;
  std::vector<Operation> operations(std::string_view collection) const;

  // What follows needs prepare_training(). Throws: ArgumentError before.

  /// Inputs of its operations that are not outputs of its operations.
  const std::vector<Value>& incoming() const;
  /// `incoming`, and what other sections must provide for its backward run.
  const std::vector<Value>& tensors_to_feed() const;
  /// What its backward run must keep for others.
  const std::vector<Value>& tensors_to_cache() const;
  /// The updates that its backward run executes.
  const std::vector<Operation>& training_operations() const;

  /// Chooses what is there for its backward run: all of tensors_to_feed(), and any other forward values, which then
  /// stay on the device from the forward pass on instead of being computed again. Throws: ArgumentError naming a
  /// tensor of tensors_to_feed() that is missing, or one that is no forward value.
  void set_tensors_to_feed(std::vector<Value> values, Hold hold = Hold::next_cycle);
  /// Chooses what its backward run keeps: all of tensors_to_cache(), and any other backward values, which then stay
  /// on the device to the end of the cycle. Throws: as set_tensors_to_feed.
  void set_tensors_to_cache(std::vector<Value> values, Hold hold = Hold::next_cycle);

 private:
  friend class SectionTrainer;
  friend class SectionScope;
  GraphSection(const SectionTrainer& trainer, const Graph& graph, int index, GroupId group, std::string name,
               std::optional<SectionOptions> options, Where where)
      : trainer_(&trainer),
        graph_(&graph),
        index_(index),
        group_(group),
        name_(std::move(name)),
        options_(std::move(options)),
        where_(where) {}
  const SectionBoundary& boundary() const;

  /// A choice of the user's; the one for the next cycle wins.
  struct Choice {
    std::vector<Value> always, next;
    bool has_next = false;
    const std::vector<Value>& current() const { return has_next ? next : always; }
    void set(std::vector<Value> values, Hold hold);
  };
  void choose(Choice GraphSection::*choice, std::vector<Value> values, Hold hold);

  const SectionTrainer* trainer_;
  const Graph* graph_;
  int index_;
  GroupId group_;
  std::string name_;
  std::optional<SectionOptions> options_;  // none: the manager's
  Where where_;
  Choice feed_, cache_;
  bool broken_ = false;  // an exception left its scope
};

}  // namespace sectionflow
