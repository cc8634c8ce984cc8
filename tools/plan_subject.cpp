#include "tools/plan_subject.h"

#include <charconv>
#include <map>
#include <set>

#include "base/error.h"
#include "compare/contender.h"
#include "graph/graph_file.h"
#include "graph/op_def.h"
#include "schedule/micro_batches.h"
#include "sections/section_trainer.h"
#include "tools/command.h"
#include "tools/trained_model.h"

namespace sectionflow {
namespace {

/// The collection of what is fetched besides the loss, in the graph of a model of the zoo.
constexpr const char* kPlannedMetrics = "planned_metrics";

/// A model with the metrics that train adds.
ModelBuilder measured(const ModelBuilder& build, const std::function<Batch(std::int64_t)>& batch_of) {
  return [build, batch_of](Graph& graph, GraphSectionManager& manager) {
    TrainableModel model = build(graph, manager);
    const Batch one = batch_of(1);
    for (const auto& [name, value] : with_metrics(model, one, manager).metrics) {
      graph.add_to_collection(kPlannedMetrics, value);
    }
    return model;
  };
}

PlanSubject zoo_subject(const SubjectArguments& arguments) {
  const ZooArguments zoo = arguments.zoo;
  check_known(zoo.model, zoo_names(), "--model: '" + zoo.model + "' is no model");
  const ZooModel model = model_of(zoo, {});
  const auto batch_of = [batch = model.batch](std::int64_t size) { return batch({.batch = size}); };
  return {.name = zoo.model,
          .model =
              [zoo, batch_of, metrics = arguments.metrics](const std::string& cut) {
                const ModelBuilder build = model_of(zoo, cut_named(cut)).build;
                return metrics ? measured(build, batch_of) : build;
              },
          .feeds = [batch_of, size = arguments.batch](
                       const Graph&, const TrainableModel& built) { return types_of_size(built, batch_of, size); },
          .metrics = [](const Graph& graph) { return graph.values(kPlannedMetrics); },
          .targets = [](const Graph&, const GraphSectionManager& manager) { return manager.training_operations(); }};
}

std::vector<std::int64_t> dims_named(const std::string& text, const std::string& argument) {
  std::vector<std::int64_t> dims;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t dim = 0;
    const auto [stop, error] = std::from_chars(at, end, dim);
    const bool goes_on = stop < end && *stop == 'x' && stop + 1 < end;
    SF_CHECK(error == std::errc() && dim >= 0 && (stop == end || goes_on), ArgumentError, "--shape ", argument,
             "; wanted NAME=SIZExSIZEx..., as in image=32x28x28x1");
    dims.push_back(dim);
    at = goes_on ? stop + 1 : stop;
  }
  return dims;
}

void check_told_once(bool is_new, const char* option, const std::string& name) {
  SF_CHECK(is_new, ArgumentError, option, ": '", name, "' is given twice; wanted once");
}

std::map<std::string, Shape> shapes_named(const std::vector<std::string>& arguments) {
  std::map<std::string, Shape> shapes;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.rfind('=');
    SF_CHECK(equals != std::string::npos && equals > 0, ArgumentError, "--shape ", argument,
             "; wanted NAME=SIZExSIZEx..., as in image=32x28x28x1");
    const std::string name = argument.substr(0, equals);
    const bool is_new = shapes.emplace(name, Shape(dims_named(argument.substr(equals + 1), argument))).second;
    check_told_once(is_new, "--shape", name);
  }
  return shapes;
}

std::map<std::string, bool> flags_named(const std::vector<std::string>& arguments) {
  std::map<std::string, bool> flags;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.rfind('=');
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    SF_CHECK(equals > 0 && (value == "true" || value == "false"), ArgumentError, "--flag ", argument,
             "; wanted NAME=true or NAME=false, as in is_training=false");
    const std::string name = argument.substr(0, equals);
    check_told_once(flags.emplace(name, value == "true").second, "--flag", name);
  }
  return flags;
}

bool is_flag(const Value& placeholder) {
  return placeholder.dtype() == Dtype::boolean && placeholder.shape().rank() == 0;
}

/// Placeholders that nobody feeds: whether a micro-batch is the last of its update, of which the fullest is planned.
std::set<std::string> decided_by_micro_batches(const Graph& graph) {
  std::set<std::string> names;
  for (const MicroBatches& each : micro_batches_of(graph)) names.insert(each.applies.name());
  return names;
}

void check_not_decided(const std::set<std::string>& decided, const char* option, const std::string& name) {
  SF_CHECK(!decided.contains(name), ArgumentError, option, ": '", name,
           "' says whether a micro-batch is the last of its update, and the fullest of all is planned",
           hint("leave it out"));
}

Shape shape_of_feed(Value placeholder, std::int64_t batch) {
  std::vector<std::int64_t> dims = placeholder.shape().dims();
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] != kDynamic) continue;
    SF_CHECK(axis == 0, ArgumentError, "placeholder '", placeholder.name(), "' ", placeholder.type().text(),
             ": only its first dimension can be the batch",
             hint("say how large it is: --shape ", placeholder.name(), "=SIZExSIZEx..."));
    dims[axis] = batch;
  }
  return Shape(dims);
}

/// What is told of a graph's placeholders by their names.
struct ToldFeeds {
  std::map<std::string, Shape> shapes;
  std::map<std::string, bool> flags;
};

FeedTypes feeds_of_graph(const Graph& graph, const ToldFeeds& told, std::int64_t batch) {
  FeedTypes feeds;
  std::vector<std::string> names, flags;
  const std::set<std::string> decided = decided_by_micro_batches(graph);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    if (!node.op().is_placeholder() || decided.contains(node.output().name())) continue;
    const Value placeholder = node.output();
    names.push_back(node.name());
    if (is_flag(placeholder)) flags.push_back(node.name());
    const auto shape = told.shapes.find(node.name());
    const auto flag = told.flags.find(node.name());
    // That one value has no sizes says nothing of which it is.
    const bool is_shaped = shape != told.shapes.end() && !(is_flag(placeholder) && shape->second.rank() == 0);
    if (is_shaped) {
      feeds.emplace_back(placeholder, shape->second);
    } else if (is_flag(placeholder)) {
      feeds.emplace_back(placeholder, flag == told.flags.end() || flag->second);
    } else {
      feeds.emplace_back(placeholder, shape_of_feed(placeholder, batch));
    }
  }
  for (const auto& [name, shape] : told.shapes) {
    check_not_decided(decided, "--shape", name);
    check_known(name, names, "--shape: '" + name + "' is no placeholder");
  }
  for (const auto& [name, flag] : told.flags) {
    check_not_decided(decided, "--flag", name);
    SF_CHECK(!flags.empty(), ArgumentError, "--flag: the graph has no boolean placeholder of one value, and so no '",
             name, "'", hint("leave it out"));
    check_known(name, flags, "--flag: '" + name + "' is no boolean placeholder of one value");
  }
  return feeds;
}

/// What a step of the graph gives: what is asked for, or the loss that its sections train.
Value fetch_of_graph(const Graph& graph, const std::string& asked) {
  if (asked.empty()) {
    const std::vector<Value> losses = graph.values(kSectionLoss);
    return losses.empty() ? Value() : losses.front();
  }
  return graph.find(asked).output();
}

std::vector<Operation> training_of_graph(const Graph& graph) {
  std::vector<Operation> training = graph.operations(kTrainingOperations);
  for (const std::string_view collection : {kUpdateOperations, kAccumulationOperations}) {
    for (Operation operation : graph.operations(collection)) training.push_back(operation);
  }
  return training;
}

PlanSubject graph_subject(const SubjectArguments& arguments) {
  const ToldFeeds told{shapes_named(arguments.shapes), flags_named(arguments.flags)};
  const auto build = [file = arguments.graph_file, fetch = arguments.fetch](Graph& graph,
                                                                            GraphSectionManager& manager) {
    load_graph(graph, file);
    if (graph.num_groups() > 0 && !graph.operations(kTrainingOperations).empty()) {
      manager.restore_sections();
      manager.prepare_training();
    }
    const TrainableModel model{.loss = fetch_of_graph(graph, fetch), .feeds = {}};
    SF_CHECK(model.loss.valid() || !training_of_graph(graph).empty(), ArgumentError, "the graph of '", file,
             "' trains nothing, and names no loss", hint("say what is to be computed: --fetch NAME"));
    return model;
  };
  return {.name = arguments.graph_file,
          .model =
              [build](const std::string& cut) {
                SF_CHECK(cut == kSectionsOfFile || cut == "1", ArgumentError, "a graph is cut as its file says; got '",
                         cut, "'", hint("wanted sections:", kSectionsOfFile, " or sections+swap:", kSectionsOfFile));
                return ModelBuilder(build);
              },
          .feeds = [told, batch = arguments.batch](
                       const Graph& graph, const TrainableModel&) { return feeds_of_graph(graph, told, batch); },
          .metrics = [](const Graph&) { return std::vector<Value>(); },
          .targets = [](const Graph& graph, const GraphSectionManager&) { return training_of_graph(graph); }};
}

}  // namespace

PlanSubject plan_subject(const SubjectArguments& arguments) {
  SF_CHECK(!arguments.metrics || arguments.graph_file.empty(), ArgumentError,
           "--metrics is of models, and this is a graph of a file", hint("say what is to be computed: --fetch NAME"));
  SF_CHECK(arguments.zoo.options.ranks == 1 || arguments.graph_file.empty(), ArgumentError,
           "--ranks is of models, and this is a graph of a file, which says itself how many ranks train",
           hint("leave it out"));
  if (!arguments.graph_file.empty()) return graph_subject(arguments);
  const char* const of_graphs = !arguments.shapes.empty()  ? "--shape"
                                : !arguments.flags.empty() ? "--flag"
                                : !arguments.fetch.empty() ? "--fetch"
                                                           : nullptr;
  SF_CHECK(of_graphs == nullptr, ArgumentError, of_graphs, " is for graphs of files", hint("add --graph FILE"));
  return zoo_subject(arguments);
}

}  // namespace sectionflow
