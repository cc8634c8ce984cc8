#pragma once

#include <random>

#include "base/host_tensor.h"
#include "op_case/op_case.h"

namespace sectionflow::op_cases {

/// Uniform in [low, high); the distributions of the standard library differ from one to another, this does not.
double uniform(std::mt19937& random, double low, double high);

/// Values for an input of a case.
Doubles drawn_values(const CaseInput& spec, std::mt19937& random);

/// Values as a tensor, each rounded to the dtype. Throws: ShapeError unless there is one an element.
HostTensor tensor_of(const TensorType& type, const Doubles& values);

}  // namespace sectionflow::op_cases
