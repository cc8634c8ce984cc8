#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/op_def.h"

namespace SF_API sectionflow {

// What shape rules share: checks of dtypes, rules of element-wise operations, and gradients that read shapes alone.

/// Throws: ArgumentError that begins with `label` unless the type is f32.
void check_f32(const TensorType& type, const std::string& label);

/// The same for every input of a node; of several, the error says which.
void check_f32(const ShapeRequest& request);

/// Whether arithmetic on activations takes the dtype: f32 or bf16.
bool is_f32_or_bf16(Dtype dtype);

/// Throws: ArgumentError that begins with `label` unless the type is f32 or bf16.
void check_f32_or_bf16(const TensorType& type, const std::string& label);

/// The same for every input of a node, which are also to be of one dtype; of several, the error says which is not.
/// Returns that dtype.
Dtype check_f32_or_bf16(const ShapeRequest& request);

/// One input of any shape, f32 or bf16; the result is like it. Throws: ArgumentError for another dtype.
std::vector<TensorType> infer_like_float(const ShapeRequest& request);

/// A gradient and what it is computed from: inputs of one type, f32 or bf16, which is that of the result. Throws:
/// ShapeError.
std::vector<TensorType> infer_gradient_of_one(const ShapeRequest& request);

/// Two inputs of one dtype that broadcast; the result is their broadcast.
/// Throws: ArgumentError for unequal dtypes, ShapeError.
std::vector<TensorType> infer_broadcast(const ShapeRequest& request);

/// dy and two inputs, all f32 or all bf16, that broadcast to its shape; the result is like dy: how far inputs were
/// broadcast, their gradient rule undoes. Throws: ShapeError.
std::vector<TensorType> infer_gradient_of_two(const ShapeRequest& request);

/// OpDef::uses of what reads all of its inputs but the last, of which the shape alone counts.
std::vector<InputUse> shape_of_last_alone(std::size_t num_inputs, HostBooleans booleans);

/// OpDef::parts of what makes each element of its outputs of those at the same place in its inputs, or of those that
/// are repeated there: inputs that have the rows of output 0 are taken by rows, the others whole.
std::optional<RowParts> parts_of_elements(const ConcreteRequest& request);

/// OpDef::parts of what makes each row of its outputs, along the last axis, of the same row in its inputs, which all
/// have one number a row at least.
std::optional<RowParts> parts_of_rows(const ConcreteRequest& request);

/// The type of y from that of x under the options of the request; throws what the op's shape rule throws.
using TypeRule = std::function<TensorType(const ShapeRequest& request, const TensorType& x)>;

/// A gradient op of inputs dy and x that reads nothing of x but its shape: dy must be like y, the result is like x.
/// Throws, as its shape rule: ShapeError when dy is not, and what `y_of` throws.
OpDef gradient_by_shape(std::string name, OptionsDescription options, TypeRule y_of);

}  // namespace sectionflow
