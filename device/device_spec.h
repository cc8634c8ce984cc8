#pragma once

#include "base/export.h"

namespace SF_API sectionflow {

/// Which kind of machine a session computes on.
enum class DeviceKind { cpu, cuda };

/// The user's choice of a device.
struct DeviceSpec {
  DeviceKind kind = DeviceKind::cpu;
  int ordinal = 0;  ///< cuda: which of the machine's GPUs
  /// cuda: products, convolutions and attention of f32 may round their inputs to TF32 (10 bits of mantissa) for speed.
  /// All strategies of one device still give the same bits.
  bool allow_tf32 = false;
  /// cuda: of a library's algorithms that always give the same bits, the fastest is found by timing them when a kernel
  /// is made for which this process has no choice yet; otherwise the library's own guess is taken. See
  /// Session::algorithm_choices.
  bool autotune = false;
};
/// What is said of a GPU besides which one it is; see DeviceSpec.
struct CudaOptions {
  bool allow_tf32 = false;  ///< as DeviceSpec::allow_tf32
  bool autotune = false;    ///< as DeviceSpec::autotune
};
/// The CPU with its memory.
inline DeviceSpec cpu() {
  return {};
}
/// A GPU of NVIDIA's. A session on one throws DeviceError where there is none, saying what is missing.
inline DeviceSpec cuda(int ordinal = 0, bool allow_tf32 = false) {
  return {DeviceKind::cuda, ordinal, allow_tf32};
}
inline DeviceSpec cuda(int ordinal, const CudaOptions& options) {
  return {DeviceKind::cuda, ordinal, options.allow_tf32, options.autotune};
}  ///< The same with more options, by name.

/// cuda(0) where a GPU can be used; otherwise cpu(), and the log says once why.
DeviceSpec best_device();

}  // namespace sectionflow
