#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "graph/nodes/convolution.h"
#include "graph/ops/convolution.h"
#include "kernels/cpu/onednn_call.h"
#include "kernels/cpu/ordered_weights.h"
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
ConvolutionProblem convolution_problem(const ConvolutionGeometry& geometry, const ConvolutionDtypes& dtypes);
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
class ConvolutionKernel final : public Kernel, public ReadsOrderedWeights {
 public:
  ConvolutionKernel(OneDnn& onednn, Core core, const std::array<ConvolutionArgument, 2>& inputs,
                    const ConvolutionArgument& output)
      : core_(std::move(core)), back_(onednn, output.wanted, output.ours) {
    for (std::size_t i = 0; i < 2; ++i) inputs_[i] = {onednn, inputs[i].ours, inputs[i].wanted};
    lay_out();
  }

  std::string implementation() const override { return core_.implementation(); }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }
  std::size_t library_bytes() const override {
    return core_.library_bytes() + inputs_[0].library_bytes() + inputs_[1].library_bytes() + back_.library_bytes();
  }

  std::size_t weights_input() const override { return 1; }
  const OrderedWeights& weights() const override { return inputs_[1]; }
  void take_packed() override {
    inputs_[1].take_packed();
    lay_out();
  }

  void launch(const KernelArguments& arguments) override {
    const auto place = [&](std::size_t at) { return workspace_part(arguments.workspace, at); };
    void* scratchpad = place(scratchpad_at_);
    const void* first = inputs_[0].in_order(arguments.inputs[0], place(at_[0]), scratchpad);
    const void* second = inputs_[1].in_order(arguments.inputs[1], place(at_[1]), scratchpad);
    void* result = arguments.outputs[0];
    void* written = back_.are_copied() ? place(at_[2]) : result;
    core_.launch({first, second, written}, scratchpad);
    (void)back_.in_order(written, result, scratchpad);
  }

 private:
  void lay_out() {
    workspace_ = {};
    at_ = {workspace_.add(inputs_[0].bytes()), workspace_.add(inputs_[1].bytes()),
           workspace_.add(back_.are_copied() ? back_.plain().get_size() : 0)};
    scratchpad_at_ = workspace_.add(std::max({core_.scratchpad_bytes(), inputs_[0].scratchpad_bytes(),
                                              inputs_[1].scratchpad_bytes(), back_.scratchpad_bytes()}));
  }

  Core core_;
  std::array<OrderedWeights, 2> inputs_;
  OrderedWeights back_;  // of the output, from how it is computed to how it is stored
  std::array<std::size_t, 3> at_{};
  std::size_t scratchpad_at_ = 0;
  WorkspaceLayout workspace_;
};

/// Fills the only output with zeros.
std::unique_ptr<Kernel> zero_kernel(const KernelRequest& request);

}  // namespace sectionflow
