#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tests/support/training_spec.h"

namespace sectionflow::testing {

/// What the layers of one model have in common while it is built.
struct ModelBuilder {
  static constexpr int kClasses = 5;

  Graph& graph;
  Value is_training;
  Value classes{};                        ///< i32 [N]: the labels, which lookup layers read as indices
  Value images{};                         ///< what the first layer reads
  std::map<int, Value> outputs{};         ///< of the layers, by id
  Value table{};                          ///< the last that a layer looked labels up in
  std::vector<Value> losses{};            ///< of layers in the middle, to be added to that of the head
  std::map<std::string, Value> shared{};  ///< variables by kind, number and shape
  std::vector<Value> views{};             ///< other names of tensors, which nobody need read

  /// The other tensor that a layer reads.
  Value source_of(const LayerSpec& layer) const;
  /// A variable of the layer's own, or one that it shares.
  Value parameter(const LayerSpec& layer, const char* name, const Shape& shape, float mean, float stddev);
  /// As parameter(), but not trained; initially `value`.
  Value state(const LayerSpec& layer, const char* name, const Shape& shape, float value);
};

/// A kind of layer: x [N, C], [N, T, C] or [N, H, W, C] to one of these.
struct LayerKind {
  std::string name{};
  int weight = 1;             ///< how often a random model has it
  bool sized = false;         ///< uses LayerSpec::size
  bool shares = false;        ///< has variables that can be shared
  bool reads_source = false;  ///< uses LayerSpec::source
  int options = 1;            ///< number of variants
  std::function<Value(ModelBuilder&, const LayerSpec&, Value)> build{};
};

const std::vector<LayerKind>& layer_kinds();
/// Kinds that random_spec does not draw: identities, variables that are used many times, layers in bf16. What they
/// give may be bf16.
const std::vector<LayerKind>& program_layer_kinds();
/// One of both lists. Throws: ArgumentError for an unknown name.
const LayerKind& kind_named(const std::string& name);

/// x in f32, which all kinds take.
Value in_f32(Value x);
/// x as [N, C]: the means over what is between.
Value pooled_rows(Value x);
/// `x`, or where its shape is another than that of `like`, one number an example with the rank of `like`.
Value fitted(Value x, Value like);

}  // namespace sectionflow::testing
