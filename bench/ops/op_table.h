#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "bench/ops/settings.h"

namespace sectionflow::bench {

class CaseBuilder;

/// A setting that an operation has, and its value where none is given.
struct DefaultSetting {
  const char* name;
  const char* value;
};

/// An operation that can be timed.
struct BenchedOp {
  std::string name;   ///< of the function of graph/ops that makes it
  std::string axes;   ///< of --shape, its first operand: "[N, H, W, C]"; "..." stands for any number of axes
  std::string shape;  ///< where none is given, one that outgrows most caches: "32x56x56x64"
  std::vector<DefaultSetting> settings{};
  /// Adds the operation to the graph of a case. Throws: what the operation throws.
  void (*build)(CaseBuilder& builder) = nullptr;
  bool has_gradient = true;
  bool takes_bf16 = true;  ///< besides f32
};

/// All of them, in the order in which they are listed.
const std::vector<BenchedOp>& benched_ops();
/// The one of that name. Throws: ArgumentError with the nearest spelling.
const BenchedOp& benched_op(const std::string& name);

// Parts of the table.
void add_layer_ops(std::vector<BenchedOp>& ops);        ///< convolutions, products, attention
void add_window_ops(std::vector<BenchedOp>& ops);       ///< pools, normalisation, softmax
void add_elementwise_ops(std::vector<BenchedOp>& ops);  ///< functions of each element, reductions
void add_moving_ops(std::vector<BenchedOp>& ops);       ///< what copies elements
void add_update_ops(std::vector<BenchedOp>& ops);       ///< steps of optimisers

/// One operation as it is to be timed.
struct CaseRequest {
  const BenchedOp* op = nullptr;
  Shape shape;
  Dtype dtype = Dtype::f32;
  Settings settings;
  bool gradient = false;  ///< its gradient operations, too
};
/// What a command line says of a case; what is empty has the operation's own value.
struct CaseWords {
  std::string shape{};
  SettingTexts settings{};
  Dtype dtype = Dtype::f32;
  bool gradient = false;
};
/// Throws: ArgumentError for an operation that there is not, a setting or a dtype that it does not have, a gradient
/// where it has none, and a text that is no shape; ShapeError for another number of axes.
CaseRequest case_request(const std::string& op, const CaseWords& words);

/// f32 or bf16. Throws: ArgumentError for others, with the nearest spelling.
Dtype benched_dtype(const std::string& name);

}  // namespace sectionflow::bench
