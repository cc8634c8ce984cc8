#include "autodiff/update_distribution.h"

#include "base/error.h"

namespace sectionflow {
namespace {

using Distribution = VariableDistribution;

/// Nothing for what is none of its values.
std::string name_of(Distribution distribution) {
  switch (distribution) {
    case Distribution::replicated:
      return "replicated";
    case Distribution::sharded:
      return "sharded";
    case Distribution::parameter_server:
      return "parameter_server";
    case Distribution::distributed_replicated:
      return "distributed_replicated";
  }
  return "";
}

/// "sharded", "parameter_server at rank 1"
std::string text_of_distribution(Distribution distribution, const ShardHolders& holders) {
  return name_of(distribution) + (holders.has_server ? text_of(" at rank ", holders.server) : "");
}

/// Of the updates that the graph has.
std::string known_distribution(const Graph& graph) {
  std::string of_variables = name_of(Distribution::replicated);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const ShardHolders* const holders = holders_of(node);
    // Averages are gathered where the variables are copies, too.
    if (refreshes_copy(node)) return text_of_distribution(Distribution::distributed_replicated, *holders);
    if (!gives_variable(node)) continue;
    of_variables =
        text_of_distribution(holders->has_server ? Distribution::parameter_server : Distribution::sharded, *holders);
  }
  return of_variables;
}

}  // namespace

ShardHolders shard_holders(const UpdateOptions& options) {
  const bool has_server = options.server || options.distribution == Distribution::parameter_server;
  return {.ranks = options.ranks, .has_server = has_server, .server = options.server.value_or(0)};
}

void check_distribution(const UpdateOptions& options, const std::string& call) {
  const std::string name = name_of(options.distribution);
  SF_CHECK_CODE(
      !name.empty(), ArgumentError, ErrorCode::ranks, call, ": distribution is ",
      static_cast<int>(options.distribution),
      ", which is none of its values; wanted replicated, sharded, parameter_server or distributed_replicated");
  if (!options.server) return;
  const bool has_use = options.distribution == Distribution::parameter_server ||
                       options.distribution == Distribution::distributed_replicated;
  SF_CHECK_CODE(has_use, ArgumentError, ErrorCode::ranks, call, ": server is ", *options.server,
                ", and the distribution ", name, " has none",
                hint("give it to parameter_server or distributed_replicated, or leave it out"));
  SF_CHECK_CODE(*options.server >= 0 && *options.server < options.ranks, ArgumentError, ErrorCode::ranks, call,
                ": server is ", *options.server, "; wanted a rank, 0 to ", options.ranks - 1);
}

void check_same_distribution(const UpdateOptions& options, const Graph& graph, const std::string& call) {
  const std::string wanted = text_of_distribution(options.distribution, shard_holders(options));
  const std::string known = known_distribution(graph);
  SF_CHECK_CODE(wanted == known, ArgumentError, ErrorCode::ranks, call, ": distribution is ", wanted,
                ", and the graph has updates of variables that are ", known,
                hint("all updates of a graph are of one distribution"));
}

}  // namespace sectionflow
