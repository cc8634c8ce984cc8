#pragma once

#include <cstddef>
#include <string>

#include "base/error.h"
#include "graph/op_def.h"

namespace sectionflow {

// What the shape rules of norms share. Throws: ShapeError or ArgumentError that begins with the request's label.

/// Inputs: `num_rounded` that may be f32 or bf16, then f32, `num_tensors` together.
void check_norm_dtypes(const ShapeRequest& request, std::size_t num_rounded, std::size_t num_tensors);
void check_norm_epsilon(float epsilon, const std::string& label);
/// dy is like x.
void check_norm_gradient(const ShapeRequest& request, const TensorType& dy, const TensorType& x);
/// An f32 input beside x.
void check_beside(const ShapeRequest& request, std::size_t input, const Shape& x, const Shape& wanted);

/// Throws: ArgumentError where options of `op` have a name, which layers alone have.
template <class Options>
void check_unnamed(const char* op, const Options& options) {
  SF_CHECK(options.name == Options{}.name, ArgumentError, op, ": name is '", options.name,
           "'; it is an option of the layer alone", hint("leave it out, or open graph.scope(\"", options.name, "\")"));
}

}  // namespace sectionflow
