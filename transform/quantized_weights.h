#pragma once

#include <memory>
#include <optional>

#include "base/host_tensor.h"
#include "graph/graph.h"

namespace sectionflow {

/// Weights as integers from -127 to 127: integer * scale of the channel is the number.
struct QuantizedWeights {
  std::shared_ptr<const HostTensor> integers{};  ///< i8, of the shape of the numbers
  std::shared_ptr<const HostTensor> scales{};    ///< f32 [channels], above 0
  int axis = 0;                                  ///< the channels, from 0 on
};

/// Of f32 numbers of rank 1 or more: each channel's largest magnitude becomes 127. None where a number is not finite.
std::optional<QuantizedWeights> quantized_weights(const HostTensor& numbers, int axis);

/// Which axis of a constant of rank 2 or more are the channels of what `reader` computes of it as its input `input`.
int channel_axis(const Node& reader, std::size_t input);

/// The numbers that a value stands for, where it is a constant of f32, or integers of such that quantize_weights has
/// put in its place; nullptr otherwise.
std::shared_ptr<const HostTensor> constant_numbers(Value value);

}  // namespace sectionflow
