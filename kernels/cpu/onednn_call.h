#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/onednn.h"
#include "kernels/kernel.h"

namespace sectionflow {

/// oneDNN as the device of the request has it, a CpuDevice.
OneDnn& onednn_of(const KernelRequest& request);

/// An argument of a primitive: which one (DNNL_ARG_...) and how its bytes lie.
struct OneDnnArgument {
  int id = 0;
  dnnl::memory::desc layout;
};

/// One oneDNN primitive with its memories made once and re-pointed at each launch: the only place that executes oneDNN.
/// What the library allocates while it executes is marked by a LibraryScope; nothing else here allocates in `launch`.
class OneDnnCall {
 public:
  /// A call of nothing: `launch` must not be called.
  OneDnnCall() = default;
  /// `description` decides the implementation. `arguments`: all but the scratchpad, in the order of launch's pointers.
  OneDnnCall(OneDnn& onednn, const dnnl::primitive_desc_base& description,
             std::initializer_list<OneDnnArgument> arguments);

  bool valid() const { return !memories_.empty(); }
  /// "jit:avx512_core"
  const std::string& implementation() const { return implementation_; }
  /// What oneDNN holds for it, code made for the problem included, as if no other call shared it: an estimate.
  std::size_t library_bytes() const;
  /// What `launch` needs as scratchpad. Any alignment gives the same bits; 64 is fast.
  std::size_t scratchpad_bytes() const { return scratchpad_bytes_; }
  /// Executes with one pointer an argument. Pointers of outputs are written through.
  /// Throws: InternalError when a pointer or a needed scratchpad is missing (oneDNN itself would crash).
  void launch(std::initializer_list<const void*> pointers, void* scratchpad);

 private:
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::string implementation_;
  std::size_t scratchpad_bytes_ = 0;
  std::vector<dnnl::memory> memories_;  // the scratchpad's is the last
  std::vector<dnnl_exec_arg_t> execute_arguments_;
};

/// A call that copies bytes from one layout to another of the same dimensions; arguments: from, to.
OneDnnCall make_reorder(OneDnn& onednn, const dnnl::memory::desc& from, const dnnl::memory::desc& to);

/// The factory `make`, with oneDNN's own exceptions turned into a DeviceError that names the node.
template <KernelFactory make>
std::unique_ptr<Kernel> onednn_factory(const KernelRequest& request) {
  try {
    return make(request);
  } catch (const dnnl::error& error) {
    throw DeviceError(text_of(request.node.label(), ": oneDNN refused it: ", error.what()));
  }
}

}  // namespace sectionflow
