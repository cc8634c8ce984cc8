#pragma once

#include <cstddef>

namespace sectionflow {

/// The variable that limits what the host holds, in MB of 2^20 bytes.
inline constexpr const char* kHostLimitVariable = "TF_GPU_HOST_MEM_LIMIT_IN_MB";

/// What the environment says to the simulation.
struct LmsEnvironment {
  double memory_ratio = 0.9;  ///< of the device memory that the variables leave
  std::size_t host_limit_bytes = 0;
};

/// Reads TF_LMS_SIMULATOR_MEM_RATIO (0.9; 0.8 where DDL_OPTIONS is set) and the host's limit (65536 MB; the older name
/// TF_CUDA_HOST_MEM_LIMIT_IN_MB is known too). Throws: ArgumentError (SF-E110) for what is no number in range.
LmsEnvironment lms_environment();

}  // namespace sectionflow
