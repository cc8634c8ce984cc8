#include "kernels/cpu/onednn_call.h"

#include <omp.h>

#include <optional>

#include "base/allocation_scope.h"
#include "base/held_signals.h"
#include "device/cpu_device.h"

namespace sectionflow {

OneDnn& onednn_of(const KernelRequest& request) {
  return static_cast<CpuDevice&>(request.device).onednn();
}

OneDnnCall::OneDnnCall(OneDnn& onednn, const dnnl::primitive_desc_base& description,
                       std::initializer_list<OneDnnArgument> arguments)
    : stream_(onednn.stream),
      primitive_(description.get()),
      implementation_(description.impl_info_str()),
      scratchpad_bytes_(description.scratchpad_desc().get_size()) {
  const auto add = [&](int id, const dnnl::memory::desc& layout) {
    memories_.emplace_back(layout, onednn.engine, nullptr);
    execute_arguments_.push_back({id, memories_.back().get()});
  };
  for (const OneDnnArgument& argument : arguments) add(argument.id, argument.layout);
  add(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
}

std::size_t OneDnnCall::library_bytes() const {
  // oneDNN does not tell. Measured: 11 KiB for a copy, 34 to 40 for a product, 23 to 81 for a convolution.
  constexpr std::size_t kCopyBytes = std::size_t{12} << 10, kPrimitiveBytes = std::size_t{48} << 10;
  if (!valid()) return 0;
  return primitive_.get_kind() == dnnl::primitive::kind::reorder ? kCopyBytes : kPrimitiveBytes;
}

void OneDnnCall::launch(std::initializer_list<const void*> pointers, void* scratchpad) {
  SF_CHECK(pointers.size() + 1 == memories_.size(), InternalError, "onednn ", implementation_, ": ", pointers.size(),
           " pointers for ", memories_.size(), " arguments with the scratchpad");
  SF_CHECK(scratchpad != nullptr || scratchpad_bytes_ == 0, InternalError, "onednn ", implementation_, " needs ",
           scratchpad_bytes_, " bytes of scratchpad and got none");
  const LibraryScope library;
  std::size_t index = 0;
  for (const void* pointer : pointers) {
    SF_CHECK(pointer != nullptr, InternalError, "onednn ", implementation_, ": pointer ", index, " is missing");
    memories_[index++].set_data_handle(const_cast<void*>(pointer));
  }
  memories_.back().set_data_handle(scratchpad);
  // Threads that OpenMP begins for the call inherit what is held: gemm may be what they compute next.
  std::optional<HeldSignals> held;
  if (!is_jit(implementation_) || omp_get_max_threads() > 1) held.emplace();
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), stream_.get(), static_cast<int>(execute_arguments_.size()), execute_arguments_.data());
  SF_CHECK(status == dnnl_success, InternalError, "onednn ", implementation_, " failed with status ", status);
}

OneDnnCall make_reorder(OneDnn& onednn, const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  const dnnl::reorder::primitive_desc description(onednn.engine, from, onednn.engine, to, user_scratchpad());
  return {onednn, description, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

}  // namespace sectionflow
