#pragma once

#include <cstdint>
#include <string>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/initializer.h"

namespace SF_API sectionflow {

// Recurrent layers over a known number of steps. Each is one step that is repeated: variables are made once, below the
// layer's name, and all steps read them. A sequence that is cut into sections by time is several calls, a part of the
// steps each, in scopes of SharedVariables; the state that one gives is what the next begins with (docs/blocks.md).
// What graph/layers.h says of dtypes holds for them; in bf16 states, too, are rounded to it at every step. Throws:
// ShapeError, ArgumentError, before anything is made.

/// What an LSTM hands from step to step: both of them, or neither, which is zeros. [N, H].
struct LstmState {
  Value output{}, cell{};

  bool valid() const { return output.valid() || cell.valid(); }
};
/// What lstm makes of a sequence.
struct LstmResult {
  Value outputs;    ///< of all steps, [N, T, H]
  LstmState state;  ///< behind the last step
};

/// Of the layers lstm and lstm_cell: their width, their variables and their initial values.
struct LstmOptions {
  std::int64_t features = 0;  ///< H; must be set
  bool bias = true;
  /// Of sequences: from the last step to the first. Outputs stay in the order of x, the state is that of the first
  /// step.
  bool reverse = false;
  /// Of padded sequences, i32 or i64 [N]: how many steps of each example count. Behind them outputs are 0, and the
  /// state stays; in reverse an example begins with its last step that counts, as if it ended there. Invalid: all.
  Value lengths{};
  /// Of sequences: x is multiplied for all steps at once; false: a step at a time, which is slower, saves nothing of a
  /// training step's peak, and in evaluation spares 2 [N, T, 4 H].
  bool inputs_at_once = true;
  Initializer input_initializer = glorot_uniform();  ///< of each gate alone
  Initializer state_initializer = glorot_uniform();
  Initializer bias_initializer{};  ///< where none is given, 1 for the forget gate and 0 for the others
  std::string name = "lstm";
};
/// One step. With (i, f, g, o) the quarters of x input_kernel + h state_kernel + bias,
///
///     c' = sigmoid(f) c + sigmoid(i) tanh(g),  h' = sigmoid(o) tanh(c').
///
/// Shapes: x [N, C] with C known, output h and cell c [N, H], input_kernel [C, 4 H], state_kernel [H, 4 H], bias [4 H].
/// These are PyTorch's: the kernels are the transposes of its weight_ih and weight_hh, the bias is the sum of its two.
/// Source: Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.
LstmState lstm_cell(Value x, LstmState state, const LstmOptions& options, Where where = Where::here());
/// All steps of a sequence, beginning with zeros. Shapes: x [N, T, C] with T and C known and T > 0.
LstmResult lstm(Value x, const LstmOptions& options, Where where = Where::here());
/// The same from a state on.
LstmResult lstm(Value x, LstmState state, const LstmOptions& options, Where where = Where::here());

/// What gru makes of a sequence.
struct GruResult {
  Value outputs;  ///< of all steps, [N, T, H]
  Value state;    ///< behind the last step, [N, H]
};

/// Of the layers gru and gru_cell: as LstmOptions.
struct GruOptions {
  std::int64_t features = 0;                         ///< H; must be set
  bool bias = true;                                  ///< both of them
  bool reverse = false;                              ///< as LstmOptions::reverse
  Value lengths{};                                   ///< as LstmOptions::lengths
  bool inputs_at_once = true;                        ///< as LstmOptions::inputs_at_once, of [N, T, 3 H]
  Initializer input_initializer = glorot_uniform();  ///< of each gate alone
  Initializer state_initializer = glorot_uniform();
  Initializer bias_initializer = zeros();  ///< of both
  std::string name = "gru";
};
/// One step. With (r, z, n) the thirds of x input_kernel + input_bias and (r', z', n') those of
/// h state_kernel + state_bias,
///
///     m = tanh(n + sigmoid(r + r') n'),  s = sigmoid(z + z'),  h' = m + s (h - m).
///
/// Shapes: x [N, C] with C known, state h [N, H]; invalid: zeros; input_kernel [C, 3 H], state_kernel [H, 3 H],
/// input_bias and state_bias [3 H]. These are PyTorch's: the kernels are the transposes of its weight_ih and weight_hh.
/// Source: Cho et al. 2014, with the reset gate behind the product.
Value gru_cell(Value x, Value state, const GruOptions& options, Where where = Where::here());
/// All steps of a sequence, beginning with zeros. Shapes: x [N, T, C] with T and C known and T > 0.
GruResult gru(Value x, const GruOptions& options, Where where = Where::here());
/// The same from a state on.
GruResult gru(Value x, Value state, const GruOptions& options, Where where = Where::here());

}  // namespace sectionflow
