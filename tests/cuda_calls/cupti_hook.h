#pragma once

#include <memory>
#include <vector>

#include "tests/support/cuda_calls.h"

namespace sectionflow::testing_support {

/// Whether this program was built with CUPTI.
bool has_cupti();

/// Watches every call of CUDA's runtime and driver that this process makes, by whichever library: ours has a runtime of
/// its own, and so have cuBLAS and cuDNN, so that nothing could be put in between at link time. Only one may live in a
/// process, and none beside a profiler or compute-sanitizer. What happened before it was made it does not know.
class CuptiHook {
 public:
  /// Throws: std::runtime_error with CUPTI's own words, also where the program was built without it.
  CuptiHook();
  ~CuptiHook();
  CuptiHook(const CuptiHook&) = delete;
  CuptiHook& operator=(const CuptiHook&) = delete;

  /// What CUDA is told between the two is counted. The device must have nothing to do at either.
  void begin();
  std::vector<CudaFinding> end();
  /// Copies of the last window that the GPU carried out.
  int num_copies() const { return log_.num_copies(); }

 private:
  struct Subscription;

  CudaCallLog log_;
  std::unique_ptr<Subscription> subscription_;
};

}  // namespace sectionflow::testing_support
