#pragma once

namespace sectionflow {

/// What a Device is as well where products of f32 may round their factors to TF32 (10 bits of fraction). Kernels ask
/// when they are made, so that all executions agree.
class Tf32Choice {
 public:
  virtual ~Tf32Choice() = default;
  virtual bool allow_tf32() const = 0;
};

}  // namespace sectionflow
