#include "runtime/check_feeds.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"
#include "base/nearest.h"
#include "graph/op_def.h"

namespace sectionflow {
namespace {

/// What is called nearly as `value`, which is of another graph or of none.
Fact nearest_in(const Graph& graph, Value value, bool placeholders_alone) {
  std::vector<std::string> names;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    // What is made for training has names that nobody has given.
    if (node.phase() == Phase::model && (!placeholders_alone || node.op().is_placeholder())) {
      names.push_back(node.name());
    }
  }
  const auto nearest = value.valid() ? nearest_spelling(value.name(), names) : std::nullopt;
  return hint(nearest ? text_of("this graph has '", *nearest, "'; is that the one that is meant?")
                      : std::string("take a value of the session's own graph"));
}

/// Checks one fed placeholder and adds it to the signature.
void add_feed(const Graph& graph, Value value, const Shape& shape, Signature& signature) {
  SF_CHECK_CODE(value.valid() && &value.graph() == &graph, ArgumentError, ErrorCode::unknown_feed, "feed of '",
                value.valid() ? value.name() : "", "': that value does not belong to the graph of this session",
                nearest_in(graph, value, true));
  const Node& node = value.node();
  SF_CHECK_CODE(node.op().is_placeholder(), ArgumentError, ErrorCode::computed_feed, "feed of '", value.name(),
                "': it is computed by ", node.op().name, "; wanted a placeholder", Fact{"made", node.place()},
                hint("make it a placeholder, or compute from one: what is computed cannot be fed"));
  SF_CHECK_CODE(matches(shape, value.shape()), ShapeError, ErrorCode::feed_shape, "feed of '", node.name(),
                "' has the shape ", shape, "; wanted ", value.type().text(), Fact{"made", node.place()});
  SF_CHECK_CODE(shape.is_static(), ShapeError, ErrorCode::feed_shape, "feed of '", node.name(), "' has the shape ",
                shape, "; wanted every dimension known");
  SF_CHECK_CODE(signature.shapes.emplace(node.id(), shape).second, ArgumentError, ErrorCode::fed_twice, "'",
                node.name(), "' is fed twice", hint("drop one of the two feeds"));
}

/// The first element that is neither finite nor of another dtype than float; its count when there is none.
template <class Float>
std::size_t first_not_finite(const FeedData& data) {
  const auto count = static_cast<std::size_t>(data.type().shape.num_elements());
  std::size_t i = 0;
  for (Float value; i < count; ++i) {
    std::memcpy(&value, data.bytes() + i * sizeof(Float), sizeof(Float));
    if (!std::isfinite(value)) break;
  }
  return i;
}

/// What to feed in place of data of another dtype.
std::string dtype_hint(const FeedData& data, const Node& placeholder) {
  const Dtype wanted = placeholder.output_types()[0].dtype;
  // Of the training flag, too, which nobody can make one of another dtype.
  if (wanted == Dtype::boolean && placeholder.output_types()[0].shape.rank() == 0) {
    return text_of("feed true or false", data.type().shape.rank() == 0 ? ", not a number" : "");
  }
  const bool is_integer = data.type().dtype == Dtype::i32 || data.type().dtype == Dtype::i64;
  if (data.type().shape.rank() == 0 && is_integer && is_floating(wanted)) {
    std::int64_t whole = 0;
    if (data.type().dtype == Dtype::i32) {
      std::int32_t narrow = 0;
      std::memcpy(&narrow, data.bytes(), sizeof(narrow));
      whole = narrow;
    } else {
      std::memcpy(&whole, data.bytes(), sizeof(whole));
    }
    return text_of("write it with a point, ", whole, ".0: a number so written is rounded to the placeholder's float");
  }
  if (data.type() == (TensorType{Dtype::f32, {}}) && is_floating(wanted)) {
    return "feed a double, as in 0.1: a number so written is rounded to the placeholder's float";
  }
  const bool wants_integer = wanted == Dtype::i32 || wanted == Dtype::i64;
  if (data.number() && wants_integer && std::isfinite(*data.number())) {
    const double number = *data.number();
    if (std::trunc(number) != number) {
      return text_of(number, " is no whole number: round it first, or make the placeholder one of f32 or f64");
    }
    // What the dtype cannot hold is not to be written otherwise.
    const double end = wanted == Dtype::i32 ? 0x1p31 : 0x1p63;
    const bool holds = -end <= number && number < end;
    if (holds && wanted == Dtype::i32) return "write a whole number, without a point";
    if (holds) return "write it as an std::int64_t, as in std::int64_t{1}";
  }
  const bool is_whole = data.type().shape.rank() == 0 && is_integer;
  if (is_whole && wanted == Dtype::i64) return "write it as an std::int64_t, as in std::int64_t{1}";
  return text_of("feed data of ", dtype_name(wanted), ", or make the placeholder one of ",
                 dtype_name(data.type().dtype), ": nothing is converted in silence");
}

void check_dtype(const Feed& feed) {
  const TensorType& type = feed.data.type();
  const Value& value = feed.value;
  if (type.dtype == value.dtype()) return;
  const Fact place{"made", value.node().place()};
  const bool is_narrow = value.dtype() == Dtype::f32 || value.dtype() == Dtype::bf16;
  // A number that a f32 or bf16 can hold has been rounded to it.
  SF_CHECK_CODE(!feed.data.number() || !is_narrow, ArgumentError, ErrorCode::feed_dtype, "feed of '", value.name(),
                "' is ", feed.data.number().value_or(0), ", which is out of the range of ", value.type().text(), place,
                hint("numbers of ", dtype_name(value.dtype()), " reach about 3.4e38; feed a smaller one"));
  throw ArgumentError(error_text_of("feed of '", value.name(), "' is ", type.text(), "; wanted ", value.type().text(),
                                    place, hint(dtype_hint(feed.data, value.node()))),
                      ErrorCode::feed_dtype);
}

}  // namespace

Signature signature_of(const Graph& graph, const Feeds& feeds) {
  Signature signature;
  for (const Feed& feed : feeds) {
    const TensorType& type = feed.data.type();
    add_feed(graph, feed.value, type.shape, signature);
    check_dtype(feed);
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

void check_finite(const Feeds& feeds) {
  for (const Feed& feed : feeds) {
    const TensorType& type = feed.data.type();
    if (!is_floating(type.dtype)) continue;
    const std::size_t index = type.dtype == Dtype::f64    ? first_not_finite<double>(feed.data)
                              : type.dtype == Dtype::bf16 ? first_not_finite<BFloat16>(feed.data)
                                                          : first_not_finite<float>(feed.data);
    SF_CHECK_CODE(index == static_cast<std::size_t>(type.shape.num_elements()), ArgumentError,
                  ErrorCode::feed_not_finite, "feed of '", feed.value.name(), "' ", type.text(), ": element ", index,
                  " is NaN or infinite; wanted finite numbers, since check_feeds is on",
                  Fact{"made", feed.value.node().place()});
  }
}

void check_fetches(const Graph& graph, const std::vector<Value>& fetches) {
  for (const Value& fetch : fetches) {
    SF_CHECK_CODE(fetch.valid() && &fetch.graph() == &graph, ArgumentError, ErrorCode::unknown_fetch, "fetch '",
                  fetch.valid() ? fetch.name() : "", "' does not belong to the graph of this session",
                  nearest_in(graph, fetch, false));
    (void)fetch.type();
  }
}

}  // namespace sectionflow
