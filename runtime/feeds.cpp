#include "runtime/feeds.h"

#include <cstring>

#include "base/error.h"

namespace sectionflow {
namespace {

/// Checks one fed placeholder and adds it to the signature.
void add_feed(const Graph& graph, Value value, const Shape& shape, Signature& signature) {
  SF_CHECK(value.valid() && &value.graph() == &graph, ArgumentError, "feed of '", value.valid() ? value.name() : "",
           "': that value does not belong to the graph of this session");
  const Node& node = value.node();
  SF_CHECK(node.op().name == "placeholder", ArgumentError, "feed of '", node.name(), "': it is computed by ",
           node.op().name, "; wanted a placeholder");
  SF_CHECK(matches(shape, value.shape()), ShapeError, "feed of '", node.name(), "' has the shape ", shape, "; wanted ",
           value.type().text());
  SF_CHECK(shape.is_static(), ShapeError, "feed of '", node.name(), "' has the shape ", shape,
           "; wanted every dimension known");
  SF_CHECK(signature.shapes.emplace(node.id(), shape).second, ArgumentError, "'", node.name(), "' is fed twice");
}

}  // namespace

FeedData::FeedData(Dtype dtype, const void* value, std::size_t num_bytes) : type_{dtype, {}} {
  std::memcpy(scalar_.data(), value, num_bytes);
}

FeedTypes types_of(const Feeds& feeds) {
  FeedTypes types;
  for (const Feed& feed : feeds) {
    if (feed.data.type() == TensorType{Dtype::boolean, {}}) {
      types.push_back({feed.value, *feed.data.bytes() != std::byte{0}});
    } else {
      types.push_back({feed.value, feed.data.type().shape});
    }
  }
  return types;
}

std::string Signature::text() const {
  std::string result;
  for (const auto& [node, shape] : shapes) result += std::to_string(node) + shape.text() + ";";
  for (const auto& [node, boolean] : booleans) result += std::to_string(node) + (boolean ? "=true;" : "=false;");
  return result;
}

Signature signature_of(const Graph& graph, const Feeds& feeds) {
  Signature signature;
  for (const Feed& feed : feeds) {
    const TensorType& type = feed.data.type();
    add_feed(graph, feed.value, type.shape, signature);
    SF_CHECK(type.dtype == feed.value.dtype(), ArgumentError, "feed of '", feed.value.name(), "' is ", type.text(),
             "; wanted ", feed.value.type().text());
    if (type == (TensorType{Dtype::boolean, {}})) {
      signature.booleans[feed.value.node().id()] = *feed.data.bytes() != std::byte{0};
    }
  }
  return signature;
}

Signature signature_of(const Graph& graph, const FeedTypes& types) {
  Signature signature;
  for (const FeedType& type : types) {
    add_feed(graph, type.value, type.shape, signature);
    if (type.value.type() != (TensorType{Dtype::boolean, {}})) {
      SF_CHECK(!type.boolean, ArgumentError, "feed type of '", type.value.name(),
               "': a boolean was given; wanted the shape of ", type.value.type().text());
      continue;
    }
    SF_CHECK(type.boolean.has_value(), ArgumentError, "feed type of '", type.value.name(),
             "': wanted true or false, since a boolean may choose kernels");
    signature.booleans[type.value.node().id()] = *type.boolean;
  }
  return signature;
}

}  // namespace sectionflow
