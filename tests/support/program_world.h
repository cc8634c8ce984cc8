#pragma once

#include <string>
#include <vector>

#include "tests/support/program_spec.h"

namespace sectionflow::testing {

/// A graph with the model of a spec, its cut, its training and what the spec adds: the same whenever it is made, and
/// after the same calls.
class ProgramWorld {
 public:
  explicit ProgramWorld(const ProgramSpec& spec);
  ProgramWorld(const ProgramWorld&) = delete;
  ProgramWorld& operator=(const ProgramWorld&) = delete;

  Graph& graph() { return graph_; }
  GraphSectionManager& manager() { return manager_; }
  const TrainingNet& net() const { return net_; }

  /// The values that a call fetches: of all that there are, or of those of the forward pass.
  std::vector<Value> fetches_of(const CallSpec& call, bool forward_only) const;
  /// Whether it is of the forward pass: it neither is an update, nor made for training, nor depends on such.
  bool is_forward(Value value) const;
  /// A variable of the graph, counted round.
  Value variable_of(int number) const;

  /// New nodes outside of all sections, and what they give, which calls may fetch from here on if it is `remembered`.
  Value derive(const CallSpec& call, bool remembered);
  /// Adds the update, or the value, that belongs to a call of CallKind::prepare.
  void add_late(const CallSpec& call);

 private:
  ExtraSpec late_extra(const CallSpec& call) const;
  void collect_values();
  Value new_state(const ExtraSpec& extra);
  void add(const ExtraSpec& extra, Value state);
  void train(Operation update, const ExtraSpec& extra);
  /// The mean of a value, counted round.
  Value mean_of(int number) const;
  Value float_state(int number);
  Value derived(const CallSpec& call, Value value);

  Graph graph_;
  GraphSectionManager manager_;
  TrainingNet net_;
  std::vector<Value> values_;  // the model's first, then what was made
  std::size_t num_model_values_ = 0;
  std::vector<Value> trained_, gradients_;
  std::vector<Value> states_;       // of the additions, early and late
  std::size_t next_state_ = 0;      // of the late ones
  std::vector<Operation> updates_;  // that may be waited for
};

}  // namespace sectionflow::testing
