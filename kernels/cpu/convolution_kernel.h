#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "graph/nodes/convolution.h"
#include "graph/ops/convolution.h"
#include "kernels/cpu/onednn_call.h"
#include "kernels/function_kernel.h"

namespace sectionflow {

// The kernels of convolutions of every rank: on oneDNN where it has code made for the machine (jit, brgemm), and loops
// of our own for the rest, since oneDNN's gemm takes memory that no scratchpad shows, and its reference is slow.
// Images whose channels stand behind the batch are copied to scratch with channels last, and back: the same numbers.

// Inputs: x, w.
std::unique_ptr<Kernel> make_convolution(const KernelRequest& request);
std::unique_ptr<Kernel> make_convolution_loop(const KernelRequest& request);
// Inputs: dy, w; a transposed convolution calls them x and w.
std::unique_ptr<Kernel> make_convolution_backward_input(const KernelRequest& request);
std::unique_ptr<Kernel> make_convolution_backward_input_loop(const KernelRequest& request);
// Inputs: dy, x.
std::unique_ptr<Kernel> make_convolution_backward_filter(const KernelRequest& request);
std::unique_ptr<Kernel> make_convolution_backward_filter_loop(const KernelRequest& request);

/// One convolution in oneDNN's words.
struct ConvolutionProblem {
  ConvolutionGeometry geometry;
  dnnl::memory::desc our_x, our_y;                              // images, as they are stored
  dnnl::memory::desc x, y;                                      // the same with channels last
  dnnl::memory::dims weights;                                   // {F, C, K...}, with groups {G, F / G, C / G, K...}
  dnnl::memory::data_type type = dnnl::memory::data_type::f32;  // of all, or of the weights
  dnnl::memory::desc our_weights;                               // [K..., C / G, F], as they are stored

  /// Whether there is nothing to multiply (an empty batch, no channels): then sums are zero.
  bool is_empty() const { return x.get_size() == 0 || y.get_size() == 0; }
  /// A layout of the weights as [K..., G, rows, columns]: `filters_last` or channels last.
  dnnl::memory::desc plain_weights(bool filters_last) const;
};
ConvolutionProblem convolution_problem(const KernelRequest& request, const Shape& x, const Shape& w);
/// The same of a node that has the options of a convolution among others.
ConvolutionProblem convolution_problem(const KernelRequest& request, const ConvolutionOptions& options, const Shape& x,
                                       const Shape& w);
/// The same of images and weights of dtypes of their own.
struct ConvolutionDtypes {
  Dtype x, w, y;
};
ConvolutionProblem convolution_problem(const KernelRequest& request, const ConvolutionOptions& options, const Shape& x,
                                       const Shape& w, const ConvolutionDtypes& dtypes);
/// The problem in oneDNN's words. The weights lie as it likes them best, since plain ones fall back to gemm.
OneDnnConvolution onednn_words(const ConvolutionProblem& problem);
/// The forward implementation for these words. oneDNN offers brgemm first, but with few channels its direct kernel is
/// faster: by 10 to 50 % up to 32 filters, equal at 64 (measured on Sapphire Rapids, under 2.6, 3.1 and 3.7). A rule,
/// not a timing, so that bits never depend on the run.
dnnl::convolution_forward::primitive_desc describe_forward(const ConvolutionProblem& problem, const OneDnn& onednn,
                                                           const OneDnnConvolution& words);

/// How one argument is stored, and how the convolution wants it.
struct ConvolutionArgument {
  dnnl::memory::desc ours, wanted;
};

/// Two inputs and an output. Arguments whose layouts differ are copied from or to scratch memory. `Core` is what
/// computes: a OneDnnCall, or what can be called like one.
template <class Core>
class ConvolutionKernel final : public Kernel {
 public:
  ConvolutionKernel(OneDnn& onednn, Core core, const std::array<ConvolutionArgument, 2>& inputs,
                    const ConvolutionArgument& output)
      : core_(std::move(core)) {
    std::size_t scratchpad = core_.scratchpad_bytes();
    for (std::size_t i = 0; i < 3; ++i) {
      const ConvolutionArgument& argument = i < 2 ? inputs[i] : output;
      if (argument.ours == argument.wanted) continue;
      Copy& copy = copies_[i];
      copy.call = i < 2 ? make_reorder(onednn, argument.ours, argument.wanted)
                        : make_reorder(onednn, argument.wanted, argument.ours);
      copy.at = workspace_.add(argument.wanted.get_size());
      scratchpad = std::max(scratchpad, copy.call.scratchpad_bytes());
    }
    scratchpad_at_ = workspace_.add(scratchpad);
  }

  std::string implementation() const override { return core_.implementation(); }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }
  std::size_t library_bytes() const override {
    std::size_t bytes = core_.library_bytes();
    for (const Copy& copy : copies_) bytes += copy.call.library_bytes();
    return bytes;
  }

  void launch(const KernelArguments& arguments) override {
    void* scratchpad = workspace_part(arguments.workspace, scratchpad_at_);
    std::array<const void*, 2> read;
    for (std::size_t i = 0; i < 2; ++i) {
      read[i] = arguments.inputs[i];
      Copy& copy = copies_[i];
      if (!copy.call.valid()) continue;
      void* copied = workspace_part(arguments.workspace, copy.at);
      copy.call.launch({read[i], copied}, scratchpad);
      read[i] = copied;
    }
    Copy& back = copies_[2];
    void* result = arguments.outputs[0];
    void* written = back.call.valid() ? workspace_part(arguments.workspace, back.at) : result;
    core_.launch({read[0], read[1], written}, scratchpad);
    if (back.call.valid()) back.call.launch({written, result}, scratchpad);
  }

 private:
  struct Copy {
    OneDnnCall call;
    std::size_t at = 0;
  };
  Core core_;
  std::array<Copy, 3> copies_;
  WorkspaceLayout workspace_;
  std::size_t scratchpad_at_ = 0;
};

/// Fills the only output with zeros.
std::unique_ptr<Kernel> zero_kernel(const KernelRequest& request);

}  // namespace sectionflow
