#pragma once

#include <cstdint>
#include <string>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/initializer.h"
#include "graph/ops/data_format.h"
#include "graph/ops/unary.h"

namespace SF_API sectionflow {

// Parts of networks that are composed of operations and of the layers in graph/layers.h, whose words on names,
// variables and dtypes hold for those that make variables. Throws: ShapeError, ArgumentError, before anything is made.

/// An activation by its name, for options.
enum class Activation {
  relu,
  gelu,       ///< the exact one
  gelu_tanh,  ///< Gelu::tanh
  silu
};
/// y = f(x). Shapes: any; y like x. f32 or bf16.
Value activate(Value x, Activation activation, Where where = Where::here());
/// Throws: ArgumentError (starting with `label`) for a number that is none of an activation.
void check_activation(Activation activation, const std::string& label);

// ---- Gated units, y = a f(b) of the two halves of x along an axis, a the first: a product of twice the width makes
// both. PyTorch's glu has them in this order. f32 or bf16. Shapes: x with an even number along the axis; y like x with
// half of that. Source: Shazeer 2020.

/// f = sigmoid. Source: Dauphin et al. 2017.
Value glu(Value x, int axis = -1, Where where = Where::here());
/// f = relu.
Value reglu(Value x, int axis = -1, Where where = Where::here());
/// f = gelu.
Value geglu(Value x, int axis = -1, GeluOptions options = {}, Where where = Where::here());
/// f = silu.
Value swiglu(Value x, int axis = -1, Where where = Where::here());

// ---- Regularisation.

/// How often drop_path drops.
struct DropPathOptions {
  float rate = 0.1F;  ///< of the examples; in [0, 1)
};
/// dropout of whole examples: while training all of x[n, ...] is 0 with probability `rate`, and x / (1 - rate)
/// otherwise; in evaluation y = x. It stands before an addition, x + drop_path(branch). Which examples, is drawn as
/// dropout draws elements: a recomputation drops the same. In bf16 the factor 1 / (1 - rate) is rounded to bf16. What
/// is infinite is NaN where it is dropped. A rate of 0 gives x itself.
/// Shapes: x [N, ...] of rank 1 or more; y like x; is_training as dropout. f32 or bf16. Source: Huang et al. 2016.
Value drop_path(Value x, Value is_training, DropPathOptions options = {}, Where where = Where::here());
/// The same by the graph's training flag (Graph::training()).
Value drop_path(Value x, DropPathOptions options = {}, Where where = Where::here());

// ---- Convolutional nets.

/// How narrow the channels are squeezed.
struct SqueezeExciteOptions {
  std::int64_t squeezed = 0;                 ///< features of the first layer; 0: a 16th of the channels, one at least
  Activation activation = Activation::relu;  ///< behind the first layer
  DataFormat format = DataFormat::nhwc;
  std::string name = "squeeze_excite";
};
/// y = x s, where every channel of an image is multiplied by a number of its own in (0, 1), s = sigmoid(W2 f(W1 m)) of
/// the channels' means m. Both products have a bias: the dense layers `<name>/squeeze` and `<name>/excite`.
/// Shapes: x [N, H, W, C] ([N, C, H, W] with DataFormat::nchw) or a volume, with C known; y like x.
/// Source: Hu et al. 2018.
Value squeeze_excite(Value x, const SqueezeExciteOptions& options = {}, Where where = Where::here());

/// What surrounds a sequence before a convolution. With stride 1 `same` and `causal` keep its length.
enum class SequencePadding {
  same,   ///< zeros on both sides, for ceil(T / stride) outputs, with the odd zero behind x
  valid,  ///< nothing
  causal  ///< zeros before x alone: y[t] sees nothing behind x[t stride]
};
/// Of the layer conv1d: its size, its steps, and the initial values of its variables.
struct Conv1dOptions {
  std::int64_t features = 0;  ///< channels of y; must be set
  std::int64_t kernel = 3;    ///< steps that an output is made of, >= 1
  std::int64_t stride = 1;    ///< >= 1
  SequencePadding padding = SequencePadding::same;
  std::int64_t dilation = 1;  ///< distance of the kernel's elements, >= 1
  std::int64_t groups = 1;    ///< filters read the channels of their group alone; as many as channels: depthwise
  bool bias = true;
  Initializer kernel_initializer = he_normal();
  Initializer bias_initializer = zeros();
  std::string name = "conv1d";
};
/// Cross-correlation along a sequence: conv2d of an image of height 1. Shapes: x [N, T, C] with T and C known, kernel
/// [1, K, C / groups, features], bias [features], y [N, OT, features].
Value conv1d(Value x, const Conv1dOptions& options, Where where = Where::here());

}  // namespace sectionflow
