#include "train/tower_batches.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/nearest.h"
#include "graph/op_def.h"

namespace sectionflow {

Value placeholder_named(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    if (!node.op().is_placeholder()) continue;
    if (node.name() == name) return node.output();
    names.push_back(node.name());
  }
  const NamesInFile known = names_in_file(name, names, "give tensors and inputs the names of placeholders");
  throw ArgumentError(error_text_of("towers have no placeholder '", name, "'; there are: ", known.list, known.hint),
                      ErrorCode::example_names);
}

namespace {

/// The part of an input that a tower gets.
TensorView part_of(const std::string& name, const HostTensor& tensor, int tower, int towers) {
  const Shape& shape = tensor.shape();
  SF_CHECK_CODE(shape.rank() >= 1, ShapeError, ErrorCode::batch_examples, "input '", name, "' is ",
                tensor.type().text(), ", which has no first axis that ", towers, " towers could divide");
  const std::int64_t examples = shape[0], below = examples / towers * towers;
  SF_CHECK_CODE(
      examples > 0 && examples == below, ShapeError, ErrorCode::batch_examples, "input '", name, "' has ", examples,
      " examples, which ", towers, " towers do not divide",
      hint(below > 0 ? text_of("feed ", below, " or ", below + towers) : text_of("feed ", towers, ", or a multiple"),
           "; batches of a data set: .batch({.size = ", below > 0 ? below : towers, ", .drop_remainder = true})"));
  std::vector<std::int64_t> dims = shape.dims();
  dims[0] = examples / towers;
  const std::size_t bytes = tensor.num_bytes() / static_cast<std::size_t>(towers);
  return {TensorType{tensor.dtype(), Shape(std::move(dims))}, tensor.bytes() + bytes * static_cast<std::size_t>(tower)};
}

}  // namespace

Feeds feeds_of_tower(const Example& batch, const std::vector<std::string>& inputs, const Graph& graph, int tower,
                     int towers) {
  Feeds feeds;
  const Example::value_type* first = nullptr;
  for (const Example::value_type& entry : batch) {
    const auto& [name, tensor] = entry;
    const bool is_split = std::find(inputs.begin(), inputs.end(), name) != inputs.end();
    const Value placeholder = placeholder_named(graph, name);
    feeds.emplace_back(placeholder, is_split ? part_of(name, tensor, tower, towers) : tensor.view());
    if (!is_split) continue;
    if (first == nullptr) first = &entry;
    SF_CHECK_CODE(tensor.shape()[0] == first->second.shape()[0], ShapeError, ErrorCode::batch_examples, "input '",
                  first->first, "' has ", first->second.shape()[0], " examples, and input '", name, "' has ",
                  tensor.shape()[0], hint("batch all inputs alike; what is not one row for each example is no input"));
  }
  return feeds;
}

HostTensor joined(const std::string& name, const TowerOutput& output, const std::vector<HostTensor>& parts) {
  const Shape& declared = output.value.shape();
  const bool is_batch = declared.rank() > 0 && declared[0] == kDynamic;
  const bool concatenates = output.join == Join::concatenate || (output.join == Join::automatic && is_batch);
  std::vector<std::int64_t> dims = parts.front().shape().dims();
  const auto begin = dims.begin() + (concatenates ? 1 : 0);
  std::int64_t first = 0;
  for (const HostTensor& part : parts) {
    const std::vector<std::int64_t>& here = part.shape().dims();
    const bool fits = here.size() == dims.size() && std::equal(begin, dims.end(), here.end() - (dims.end() - begin));
    SF_CHECK(fits, ShapeError, "towers give '", name, "' as ", parts.front().type().text(), " and as ",
             part.type().text(), ", which are not to be ", concatenates ? "concatenated" : "stacked");
    first += concatenates ? here[0] : 1;
  }
  if (concatenates) {
    dims[0] = first;
  } else {
    dims.insert(dims.begin(), first);
  }
  HostTensor whole(parts.front().dtype(), Shape(std::move(dims)));
  std::byte* to = whole.bytes();
  for (const HostTensor& part : parts) {
    if (part.num_bytes() > 0) std::memcpy(to, part.bytes(), part.num_bytes());
    to += part.num_bytes();
  }
  return whole;
}

}  // namespace sectionflow
