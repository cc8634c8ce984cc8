#include "runtime/range_marks.h"

#include "device/cuda_module.h"
#include "runtime/engine.h"

namespace sectionflow {

RangeMarks::RangeMarks(const Session& session) {
  if (engine(session).device().kind() != DeviceKind::cuda) return;
  const CudaModule& module = cuda_module();
  if (module.push_range == nullptr || module.pop_range == nullptr) return;  // of an emulated GPU
  push_ = module.push_range;
  pop_ = module.pop_range;
}

void RangeMarks::begin(const std::string& name) {
  if (push_ == nullptr) return;
  push_(name.c_str());
  ++depth_;
}

void RangeMarks::end() {
  end_down_to(depth_ - 1);
}

void RangeMarks::end_down_to(int depth) {
  for (; depth_ > depth && depth_ > 0; --depth_) pop_();
}

}  // namespace sectionflow
