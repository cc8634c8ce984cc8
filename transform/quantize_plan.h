#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/nodes/convolution.h"
#include "transform/quantize_nodes.h"
#include "transform/quantized_weights.h"
#include "transform/transform.h"

namespace sectionflow {

/// Operations of a graph that one of 8 bits takes over, in their order; the last one's value is its result.
struct QuantizedPart {
  enum class Kind { product, sum, pool, view };  ///< view: gives the same elements another shape
  Kind kind = Kind::product;
  const Node* first = nullptr;
  const Node* bias = nullptr;  ///< a bias_add
  const Node* relu = nullptr;
  const Node* clip = nullptr;  ///< from 0 to clip_high, where integers of u8 end
  const Node* last = nullptr;
  std::vector<Value> integers{};  ///< inputs that are read as integers
  Value residual{};               ///< of a product: read as it is
  // Of products.
  std::optional<QuantizedWeights> weights{};
  std::shared_ptr<const HostTensor> summands{};  ///< of the bias, f32 [F]; null: none
  bool has_relu = false;
  float clip_high = 0;
};

/// How a value of the graph is needed.
struct ValueNeeds {
  bool as_integers = false, as_floats = false;
};

/// Which operations of a graph compute with 8 bits, and who needs what of their results.
class QuantizePlan {
 public:
  explicit QuantizePlan(const TransformedGraph& given);

  /// The part whose last operation it is; nullptr where it is of none.
  const QuantizedPart* part_of_last(const Node& node) const;
  /// Whether a part takes an operation over that is not its last.
  bool is_inside(const Node& node) const { return inside_.contains(&node); }
  ValueNeeds needs_of(const Value& value) const;
  /// Values that are to become integers, or results that are, in the order of the graph: those whose ranges are needed.
  std::vector<Value> ranged_values() const;
  QuantizeReport report() const;

 private:
  void add_part(QuantizedPart part);
  void add_needs();
  /// The reason why a node stays f32; empty where it is made a part.
  std::string try_node(const Node& node);
  std::string try_product(const Node& node);
  std::string try_sum(const Node& node);
  std::string try_pool(const Node& node);
  bool is_of_part(const Value& value) const { return part_of_last(value.node()) != nullptr; }
  /// The only reader of a node's only output, where it is of that op, and nothing but inputs decides when it runs.
  const Node* follower(const Node& node, const char* op) const;
  void take_tail(QuantizedPart& part, DataFormat format, bool takes_bias);
  void take_clip(QuantizedPart& part);
  /// Of a part whose result nobody reads as integers.
  void give_back_clip(const Node& clip);

  const TransformedGraph& given_;
  std::vector<std::vector<int>> counts_;
  std::map<const Node*, const Node*> readers_;  // of each node the last
  std::vector<const Node*> order_;
  std::map<const Node*, QuantizedPart> parts_;  // by their last
  std::set<const Node*> inside_;
  std::map<const Node*, std::string> reasons_;
  std::map<Value, ValueNeeds> needs_;
};

}  // namespace sectionflow
