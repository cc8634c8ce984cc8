#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// x rounded to the numbers that integers of 8 bits stand for where its range is from `minimum` to `maximum`, for
/// training what is quantised later: the same bits as dequantize(quantize(x)), with the integers and the scale that
/// quantize_nodes takes for that range. Those are u8 from 0 to 255 where minimum >= 0, and else i8 from -128 to 127;
/// the larger end by magnitude is 255 or 127 times the scale. NaN stays NaN.
///
/// The gradient goes straight through: dx is dy where x is within the range, to half a step beyond it, and 0 where it
/// is cut off. What determines the scale, the larger end, has the gradient of a learned step size; the other end has 0.
/// Second derivatives are refused.
/// Shapes: x [..., C]; minimum and maximum both [] or both [C], one a channel; y like x. x and y f32 or bf16, the range
/// f32. Throws: ShapeError, ArgumentError.
/// Sources: Jacob et al. 2018, Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
/// Inference; Esser et al. 2020, Learned Step Size Quantization, of which this is without the factor of the gradient.
Value fake_quantize(Value x, Value minimum, Value maximum, Where where = Where::here());

}  // namespace sectionflow
