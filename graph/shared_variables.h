#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

class SharedEntry;
struct SharedState;

/// An open scope of SharedVariables; closes it when it ends, which is to be before what is around it ends. Move-only.
class SharedScope {
 public:
  SharedScope(SharedScope&&) noexcept = default;
  SharedScope& operator=(SharedScope&&) = delete;
  ~SharedScope();

 private:
  friend class SharedVariables;
  SharedScope(std::shared_ptr<SharedEntry> entry, GraphScope names, GraphScope entered);
  std::shared_ptr<SharedEntry> entry_;
  GraphScope names_, entered_;
};

/// Variables that several parts of a graph have in common: the towers of a siamese net, the steps of a recurrent one,
/// training and its evaluation by averaged weights.
///
///     SharedVariables encoder(graph, "encoder");
///     const auto encode = [&](Value x) {
///       const auto scope = encoder.scope();
///       return dense(relu(dense(x, {.features = 64})), {.features = 8});
///     };
///     const Value difference = encode(left) - encode(right);
///
/// What layers, `parameter` and `variable` make in the first scope, they find in every later one, by its name below the
/// scope: they make no variable there, call no initialiser and draw no random numbers for it. A later scope may ask for
/// a part of the variables, but for no other, and for none of another shape, dtype or trainable mark. All else is made
/// anew in each scope: operations have names of their own (`encoder_1/dense/matmul`), a dropout draws a mask of its
/// own, a batch norm updates the one pair of moving averages once a scope, in the order of the scopes.
///
/// Scopes may be opened in any section and in several; the scopes of others may be open around and within. A first
/// scope that an exception leaves, or that is taken out of the graph again (Graph::all_or_nothing), is not remembered:
/// the next one is the first. What the exception leaves behind stays in the graph, trained variables among it, unless
/// it was built within all_or_nothing. Threads: as the graph, which must outlive it.
class SharedVariables {
 public:
  /// `name` is the name scope that is opened below the current one: `name`, then `name_1`, and so on; one that begins
  /// the name of something else, as of a layer called "encoder/dense", is left out.
  SharedVariables(Graph& graph, std::string name);
  /// Copies share the variables.
  SharedVariables(const SharedVariables&) = default;
  SharedVariables& operator=(const SharedVariables&) = default;
  ~SharedVariables() = default;

  /// Opens a scope, as in `{ const auto scope = encoder.scope(); x = dense(x, {.features = 8}); }`.
  /// Throws: ArgumentError (SF-E015) within a scope of its own.
  [[nodiscard]] SharedScope scope(Where where = Where::here());

  /// A value to take in the place of a variable, of the same type; the variable itself where there is none.
  using Instead = std::function<Value(Value variable)>;
  /// Opens a scope in which each variable is given as `instead` says: as the average of its values so far, to evaluate
  /// by. Layers update no moving averages there. The innermost scope that has the variable and an `instead` decides.
  /// Throws: ArgumentError (SF-E015) as above, and before a first scope has made the variables. What `instead` gives is
  /// checked where a layer asks for it.
  [[nodiscard]] SharedScope scope(Instead instead, Where where = Where::here());

  /// What the first scope has made, in that order; those that are not trained are among them.
  std::vector<Value> variables() const;

 private:
  Graph* graph_;
  std::shared_ptr<SharedState> state_;
};

}  // namespace sectionflow
