#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "transform/inference_graph.h"

namespace sectionflow {

/// What a transform is given: a graph, what is asked of it, and the ranges of its tensors that are known.
struct TransformedGraph {
  const Graph& graph;
  const std::vector<Value>& outputs;
  const ValueRanges& ranges;
};

/// The arguments of one transform in a text, by their names; each has been checked to be one that the transform takes.
class TransformArguments {
 public:
  void add(const std::string& name, std::string value) { values_[name].push_back(std::move(value)); }
  bool has(const std::string& name) const { return values_.contains(name); }
  /// All values of that name, as they were written.
  std::vector<std::string> texts(const std::string& name) const;
  /// The value of that name as a whole number from 0 on; `otherwise` where there is none.
  std::int64_t number(const std::string& name, std::int64_t otherwise) const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

/// What may be written as an argument.
struct TransformParameter {
  enum class Kind { number, text };
  std::string name;
  Kind kind = Kind::text;
  bool is_needed = false;
  bool may_repeat = false;
};

/// From graph to graph, each in a file of its own, which defines `Transform <name>_transform()`; the list in
/// transform_list.inc has a row for each.
struct Transform {
  std::vector<TransformParameter> parameters{};
  /// Of a graph that has more than its outputs need, it checks what they need alone.
  bool checks_needed_alone = false;
  /// Asked of all transforms of a text before the first is applied; absent: its parameters say it all. Throws:
  /// ArgumentError.
  std::function<void(const TransformArguments&)> check{};
  /// Throws: ArgumentError.
  std::function<InferenceGraph(const TransformedGraph&, const TransformArguments&)> apply{};
};

/// One transform of a text, ready to be applied.
struct TransformCall {
  std::string name;
  Transform transform;
  TransformArguments arguments;
};
/// All of a text. Throws: as transform_graph, of the text.
std::vector<TransformCall> parse_transforms(std::string_view text);

}  // namespace sectionflow
