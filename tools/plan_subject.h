#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/zoo_arguments.h"
#include "compare/strategy_names.h"
#include "tools/training_data.h"

namespace sectionflow {

/// What is to be planned: a model of the zoo, or a graph of a file.
struct SubjectArguments {
  ZooArguments zoo{};
  std::string graph_file{};
  std::vector<std::string> shapes{};                   ///< of placeholders of the graph: "image=32x28x28x1"
  std::vector<std::string> flags{};                    ///< of boolean placeholders of the graph: "is_training=false"
  std::string fetch{};                                 ///< of the graph
  std::int64_t batch = TrainingDataArguments{}.batch;  ///< what is trained where nothing is said
  bool metrics = false;                                ///< of a model: fetch what train fetches, its accuracy too
};

/// A model that strategies can be made for, and what its step is fed.
struct PlanSubject {
  std::string name{};
  CutModel model{};
  std::function<FeedTypes(const Graph&, const TrainableModel&)> feeds{};
  /// Besides the loss, what its step gives.
  std::function<std::vector<Value>(const Graph&)> metrics{};
  /// Of training it whole: the operations besides the fetch.
  std::function<std::vector<Operation>(const Graph&, const GraphSectionManager&)> targets{};
};

/// How strategies call the sections that a graph's file has: sections:file.
inline constexpr const char* kSectionsOfFile = "file";

/// No data is read or made, but for two small batches whose shapes are looked at, and the graph's file.
/// Throws: ArgumentError, with the nearest name for a model that is none; what load_graph throws, when it is built.
PlanSubject plan_subject(const SubjectArguments& arguments);

}  // namespace sectionflow
