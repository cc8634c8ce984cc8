#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/source.h"
#include "graph/graph.h"
#include "runtime/feeds.h"
#include "train/trainer.h"

namespace sectionflow {

/// The nodes that a run of these fetches and targets executes or reads, as far as the graph tells.
std::set<NodeId> nodes_run_by(const Graph& graph, const std::vector<Value>& fetches,
                              const std::vector<Operation>& targets);
/// The placeholders that a run of these fetches and targets reads, as far as the graph tells.
std::set<NodeId> placeholders_read_by(const Graph& graph, const std::vector<Value>& fetches,
                                      const std::vector<Operation>& targets);

/// Of a step that was not fed all that it reads: throws the error anew where it is of a single number, which is most
/// often a learning rate, and says which callback feeds one. Does nothing about any other error.
void explain_missing_feed(const ArgumentError& error, const Graph& graph, const std::set<NodeId>& read,
                          const Feeds& feeds);

/// Which tensor of a batch feeds which placeholder.
class BatchFeeds {
 public:
  /// Throws: ArgumentError for inputs that are no placeholders of the graph, and for a tensor or a placeholder that is
  /// named twice.
  BatchFeeds(const Graph& graph, std::vector<BatchInput> inputs, std::vector<std::string> ignored);

  struct Bound {
    Feeds feeds;
    std::int64_t num_examples = 1;  ///< 1 where no tensor has a first axis
  };
  /// The feeds of those placeholders among `read`. Throws: ArgumentError (SF-E600) for a tensor that is missing or that
  /// no placeholder takes, with the nearest name; SF-E601 for another dtype or shape; SF-E602 where tensors count
  /// other numbers of examples, or none.
  Bound bind(const Example& batch, const std::set<NodeId>& read);
  /// The placeholder among `read` that bind feeds from this tensor as it is; none where it is mapped, or does not fit.
  std::optional<Value> fed_as_it_is(const std::string& tensor, const TensorType& type, const std::set<NodeId>& read);

 private:
  const BatchInput* find(const std::string& tensor) const;
  void meet_graph();

  const Graph& graph_;
  std::vector<BatchInput> inputs_;  // as the user gave them
  std::vector<std::string> ignored_;
  std::set<NodeId> listed_;                    // placeholders that inputs_ name
  std::map<std::string, Value> placeholders_;  // of the graph, by name
  int num_nodes_ = 0;                          // of the graph when it was last looked at
};

}  // namespace sectionflow
