// Variables become constants.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "transform/graph_copy.h"
#include "transform/inference_graph.h"

namespace sectionflow {
namespace {

using Content = std::shared_ptr<const HostTensor>;

Content content_of(HostTensor tensor) {
  return std::make_shared<const HostTensor>(std::move(tensor));
}

/// What placeholders hold for good.
class FixedFeeds {
 public:
  FixedFeeds(const Graph& graph, const Feeds& feeds) {
    for (const Feed& feed : feeds) {
      SF_CHECK(feed.value.valid() && &feed.value.graph() == &graph && feed.value.node().op().is_placeholder(),
               ArgumentError, "freeze: the feed '", feed.value.valid() ? feed.value.name() : "",
               "' is no placeholder of the session's graph");
      SF_CHECK(may_agree(feed.value.type(), feed.data.type()), ShapeError, "freeze: the feed of '", feed.value.name(),
               "' is ", feed.data.type().text(), "; wanted ", feed.value.type().text());
      HostTensor tensor(feed.data.type());
      std::copy_n(feed.data.bytes(), tensor.num_bytes(), tensor.bytes());
      SF_CHECK(contents_.emplace(&feed.value.node(), content_of(std::move(tensor))).second, ArgumentError, "freeze: '",
               feed.value.name(), "' is fed twice");
    }
    const Node* flag = graph.training_flag();
    if (flag != nullptr) contents_.emplace(flag, content_of(HostTensor::scalar(false)));
  }

  /// nullptr for what is not fed.
  Content of(const Node& node) const {
    const auto found = contents_.find(&node);
    return found != contents_.end() ? found->second : nullptr;
  }
  std::optional<bool> boolean(Value value) const {
    const Content content = of(value.node());
    return content != nullptr ? std::optional<bool>(content->item<bool>()) : constant_boolean(value);
  }

 private:
  std::map<const Node*, Content> contents_;
};

}  // namespace

InferenceGraph freeze(Session& session, const std::vector<Value>& outputs, const FreezeOptions& options, Where where) {
  return call_at(where, [&] {
    const Graph& graph = session.graph();
    check_outputs(graph, outputs, "freeze");
    const FixedFeeds feeds(graph, options.feeds);
    const KnownBoolean known = [&](Value value) { return feeds.boolean(value); };
    const std::vector<bool> needed = needed_nodes(graph, outputs);
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      if (needed[static_cast<std::size_t>(id)]) check_is_for_inference(graph.node(id), known, "freeze");
    }
    GraphCopy copy(graph);
    copy.copy_all(
        [&](const Node& node, GraphCopy& made) {
          if (is_without_effect(node, known)) return true;
          Content content = feeds.of(node);
          const Value value = node.output_types().empty() ? Value() : graph.node(node.id()).output();
          if (is_session_variable(node)) content = content_of(session.read(value, where));
          if (content == nullptr) return false;
          made.map(value, made.add_constant(node, std::move(content), node.name()));
          return true;
        },
        &needed);
    return copy.finish(outputs);
  });
}

}  // namespace sectionflow
