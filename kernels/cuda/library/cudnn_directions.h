#pragma once

#include <cudnn.h>

#include <tuple>

#include "base/error.h"
#include "kernels/cuda/library/library_kernels.h"
#include "kernels/cuda/library/padded_convolution.h"
#include "kernels/kernel.h"

// What differs between the three convolutions of cuDNN's API, and the owners of its descriptors.
namespace sectionflow::gpu::cudnn {

using TensorDescriptor = Descriptor<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using FilterDescriptor = Descriptor<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor = Descriptor<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;

inline void check_cudnn(cudnnStatus_t status, const char* what) {
  SF_CHECK(status == CUDNN_STATUS_SUCCESS, DeviceError, "cudnn: ", what, ": ", cudnnGetErrorString(status));
}

/// The descriptors of one convolution.
struct Descriptors {
  TensorDescriptor x, y;
  FilterDescriptor filter;
  ConvolutionDescriptor convolution;
};

inline Descriptors make_descriptors() {
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t filter = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  Descriptors d;
  check_cudnn(cudnnCreateTensorDescriptor(&x), "cudnnCreateTensorDescriptor");
  d.x.reset(x);
  check_cudnn(cudnnCreateTensorDescriptor(&y), "cudnnCreateTensorDescriptor");
  d.y.reset(y);
  check_cudnn(cudnnCreateFilterDescriptor(&filter), "cudnnCreateFilterDescriptor");
  d.filter.reset(filter);
  check_cudnn(cudnnCreateConvolutionDescriptor(&convolution), "cudnnCreateConvolutionDescriptor");
  d.convolution.reset(convolution);
  return d;
}

// The three convolutions compute a third tensor from two others. Each says: its algorithms; which of them sum products
// as they are (Fourier's and Winograd's transforms err more, and let one infinity reach its neighbours), and each sum
// in one piece or in pieces of f32: without scratch for them, pieces are added up in the output, and so rounded to bf16
// each; the library's calls; and which tensors are the first, second and third, for descriptors and for operands.
// `filter` is in cuDNN's layout.
struct Operands {
  const void *first, *second;
  void* third;
};

/// Inputs: x, w.
struct Forward {
  using Algorithm = cudnnConvolutionFwdAlgo_t;
  using Candidate = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr const char* kName = "convolution";
  static constexpr int kNumAlgorithms = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  static constexpr bool kWritesFilter = false;
  static constexpr auto kImage = ImagePlace::input0;
  static constexpr auto kFind = cudnnGetConvolutionForwardAlgorithm_v7;
  static constexpr auto kScratch = cudnnGetConvolutionForwardWorkspaceSize;
  static constexpr auto kRun = cudnnConvolutionForward;

  static bool sums_products(Algorithm algorithm, bool /*of_bf16*/) {
    return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM ||
           algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM ||
           algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM || algorithm == CUDNN_CONVOLUTION_FWD_ALGO_DIRECT;
  }
  static auto descriptors(const Descriptors& d) { return std::tuple(d.x.get(), d.filter.get(), d.y.get()); }
  /// In our layout. The library does not write to an input.
  static void* filter_of(const KernelArguments& arguments) { return const_cast<void*>(arguments.inputs[1]); }
  static Operands operands(const KernelArguments& arguments, void* filter) {
    return {arguments.inputs[0], filter, arguments.outputs[0]};
  }
};

/// Inputs: dy, w.
struct BackwardInput {
  using Algorithm = cudnnConvolutionBwdDataAlgo_t;
  using Candidate = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr const char* kName = "gradient of a convolution's input";
  static constexpr int kNumAlgorithms = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
  static constexpr bool kWritesFilter = false;
  static constexpr auto kImage = ImagePlace::output;
  static constexpr auto kFind = cudnnGetConvolutionBackwardDataAlgorithm_v7;
  static constexpr auto kScratch = cudnnGetConvolutionBackwardDataWorkspaceSize;
  static constexpr auto kRun = cudnnConvolutionBackwardData;

  static bool sums_products(Algorithm algorithm, bool of_bf16) {
    return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 ||
           (algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 && !of_bf16);
  }
  static auto descriptors(const Descriptors& d) { return std::tuple(d.filter.get(), d.y.get(), d.x.get()); }
  /// In our layout. The library does not write to an input.
  static void* filter_of(const KernelArguments& arguments) { return const_cast<void*>(arguments.inputs[1]); }
  static Operands operands(const KernelArguments& arguments, void* filter) {
    return {filter, arguments.inputs[0], arguments.outputs[0]};
  }
};

/// Inputs: dy, x. The output is the filter.
struct BackwardFilter {
  using Algorithm = cudnnConvolutionBwdFilterAlgo_t;
  using Candidate = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr const char* kName = "gradient of a convolution's filter";
  static constexpr int kNumAlgorithms = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  static constexpr bool kWritesFilter = true;
  static constexpr auto kImage = ImagePlace::input1;
  static constexpr auto kFind = cudnnGetConvolutionBackwardFilterAlgorithm_v7;
  static constexpr auto kScratch = cudnnGetConvolutionBackwardFilterWorkspaceSize;
  static constexpr auto kRun = cudnnConvolutionBackwardFilter;

  static bool sums_products(Algorithm algorithm, bool of_bf16) {
    if (algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1) return true;
    return !of_bf16 &&
           (algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 || algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3);
  }
  static auto descriptors(const Descriptors& d) { return std::tuple(d.x.get(), d.y.get(), d.filter.get()); }
  static void* filter_of(const KernelArguments& arguments) { return arguments.outputs[0]; }
  static Operands operands(const KernelArguments& arguments, void* filter) {
    return {arguments.inputs[1], arguments.inputs[0], filter};
  }
};

}  // namespace sectionflow::gpu::cudnn
