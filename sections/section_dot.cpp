#include "sections/section_dot.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/bytes.h"
#include "base/utf8.h"
#include "base/whole_file.h"
#include "runtime/check_feeds.h"
#include "schedule/concrete_graph.h"

namespace sectionflow {
namespace {

/// A text between quotes, as Graphviz reads it.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : valid_utf8(text)) {
    if (letter == '"' || letter == '\\') result += '\\';
    if (letter == '\n') {
      result += "\\n";
    } else {
      result += letter;
    }
  }
  return result + '"';
}

/// A tensor that crosses borders, and who takes it.
struct BorderTensor {
  std::set<int> forward;   // sections whose operations read it
  std::set<int> backward;  // sections whose backward runs are given it
  int kept_by = -1;        // the section whose backward run keeps it for others
};

/// In the order of creation.
struct ByCreation {
  bool operator()(const Value& a, const Value& b) const {
    return std::pair(a.node().id(), a.output()) < std::pair(b.node().id(), b.output());
  }
};
using BorderTensors = std::map<Value, BorderTensor, ByCreation>;

class SectionDrawing {
 public:
  SectionDrawing(const GraphSectionManager& manager, const FeedTypes& feeds, const DotOptions& options)
      : manager_(manager),
        options_(options),
        graph_(manager.training_operations().front().node().graph()),
        signature_(signature_of(graph_, feeds)),
        types_(graph_, signature_) {
    for (const auto& section : manager.sections()) {
      for (const Operation& operation : section->operations()) {
        section_of_[operation.node().id()] = section->index();
      }
    }
    find_border_tensors();
  }

  std::string text() {
    text_ += "digraph sections {\n  rankdir=TB;\n  node [fontname=\"Helvetica\", fontsize=10];\n";
    for (const auto& section : manager_.sections()) add_cluster(*section);
    for (const auto& [value, tensor] : border_) add_tensor(value, tensor);
    return text_ + "}\n";
  }

 private:
  void find_border_tensors() {
    for (const auto& section : manager_.sections()) {
      const std::vector<Value>& incoming = section->incoming();
      for (const Value& value : incoming) border_[value].forward.insert(section->index());
      if (!options_.backward) continue;
      for (const Value& value : section->tensors_to_feed()) border_[value].backward.insert(section->index());
      for (const Value& value : section->tensors_to_cache()) border_[value].kept_by = section->index();
    }
  }

  static std::string name_of(const Node& node) { return text_of("n", node.id()); }
  static std::string run_of(int section) { return text_of("backward", section); }
  static std::string box_of(int section) { return text_of("forward", section); }

  /// The type under the feeds; as the graph knows it where they leave something open.
  TensorType type_of(const Value& value) const {
    try {
      return types_.type(value);
    } catch (const Error&) {
      return value.type();
    }
  }

  void line(const std::string& text) { text_ += "  " + text + "\n"; }
  void arrow(const std::string& from, const std::string& to, const char* style = "") {
    line(text_of(from, " -> ", to, *style == 0 ? "" : text_of(" [", style, "]"), ";"));
  }

  void add_cluster(const GraphSection& section) {
    const int index = section.index();
    std::size_t bytes = 0;
    const std::vector<Value> variables = section.values(kTrainableVariables);
    for (const Value& variable : variables) bytes += variable.type().bytes();
    line(text_of("subgraph cluster_", index, " {"));
    line(text_of("  label=",
                 quoted(text_of(graph_.group_name(section.group()), "\n", variables.size(), " trained variables, ",
                                bytes_text(bytes))),
                 "; style=rounded; color=\"#5b7f95\"; fontname=\"Helvetica\";"));
    const std::vector<Operation> operations = section.operations();
    if (options_.operations) {
      for (const Operation& operation : operations) {
        const Node& node = operation.node();
        line(text_of("  ", name_of(node), " [shape=box, label=", quoted(node.op().name + "\n" + node.name()), "];"));
      }
      add_inner_arrows(operations);
    }
    if (!options_.operations || operations.empty()) {
      line(
          text_of("  ", box_of(index), " [shape=box, label=", quoted(text_of(operations.size(), " operations")), "];"));
    }
    if (options_.backward) {
      line(text_of("  ", run_of(index), " [shape=cds, label=", quoted(text_of("backward ", index)), "];"));
    }
    line("}");
  }

  void add_inner_arrows(const std::vector<Operation>& operations) {
    for (const Operation& operation : operations) {
      std::set<NodeId> makers;
      for (const Value& input : operation.node().inputs()) {
        const bool is_inside = section_at(input.node()) == section_at(operation.node());
        if (is_inside && makers.insert(input.node().id()).second) {
          arrow(text_of("  ", name_of(input.node())), name_of(operation.node()));
        }
      }
    }
  }

  int section_at(const Node& node) const {
    const auto found = section_of_.find(node.id());
    return found == section_of_.end() ? -1 : found->second;
  }

  void add_tensor(const Value& value, const BorderTensor& tensor) {
    const std::string name = text_of("t", value.node().id(), "_", value.output());
    const TensorType type = type_of(value);
    const std::string bytes = type.shape.is_static() ? text_of("\n", bytes_text(type.bytes())) : "";
    line(text_of(name, " [shape=note, style=filled, fillcolor=\"#fff3d6\", label=",
                 quoted(value.name() + "\n" + type.text() + bytes), "];"));
    const int maker = section_at(value.node());
    if (maker >= 0) {
      arrow(options_.operations ? name_of(value.node()) : box_of(maker), name);
    } else if (tensor.kept_by >= 0) {
      arrow(run_of(tensor.kept_by), name, "style=dashed");
    }
    for (const int section : tensor.forward) add_readers(name, value, section);
    for (const int section : tensor.backward) arrow(name, run_of(section), "style=dashed");
  }

  void add_readers(const std::string& name, const Value& value, int section) {
    bool has_reader = false;
    if (options_.operations) {
      for (const Operation& operation : manager_.section(section).operations()) {
        const std::vector<Value>& inputs = operation.node().inputs();
        if (std::find(inputs.begin(), inputs.end(), value) == inputs.end()) continue;
        arrow(name, name_of(operation.node()));
        has_reader = true;
      }
      // What only its updates read has no operation that is drawn.
      if (has_reader || !manager_.section(section).operations().empty()) return;
    }
    arrow(name, box_of(section));
  }

  const GraphSectionManager& manager_;
  const DotOptions& options_;
  const Graph& graph_;
  Signature signature_;
  ConcreteGraph types_;
  std::map<NodeId, int> section_of_;
  BorderTensors border_;
  std::string text_;
};

void check_prepared(const GraphSectionManager& manager) {
  SF_CHECK_CODE(manager.is_prepared(), ArgumentError, ErrorCode::not_prepared,
                "sections_dot: the borders of the sections are not known yet", hint("call prepare_training() first"));
}

}  // namespace

std::string sections_dot(const GraphSectionManager& manager, const FeedTypes& feeds, const DotOptions& options,
                         Where where) {
  return call_at(where, [&] {
    check_prepared(manager);
    return SectionDrawing(manager, feeds, options).text();
  });
}

void write_sections_dot(const std::string& path, const GraphSectionManager& manager, const FeedTypes& feeds,
                        const DotOptions& options, Where where) {
  const std::string text = sections_dot(manager, feeds, options, where);
  call_at(where, [&] { write_whole_file(path, text, "write_sections_dot"); });
}

}  // namespace sectionflow
