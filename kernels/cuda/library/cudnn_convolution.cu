#include "kernels/cuda/library/library_kernels.h"

#if defined(SF_HAS_CUDNN)
#include <cudnn.h>

#include <array>
#include <utility>

#include "device/cuda/cuda_device.h"
#include "kernels/cuda/library/convolution_numbers.h"
#include "kernels/cuda/library/descriptor.h"

// All calls go through the handle of the device, whose stream is the compute queue: the kernels of a device are made
// and launched by one thread at a time.

namespace sectionflow {
namespace {

using gpu::ConvolutionNumbers;

using TensorDescriptor = gpu::Descriptor<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using FilterDescriptor = gpu::Descriptor<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor = gpu::Descriptor<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;

void check_cudnn(cudnnStatus_t status, const char* what) {
  SF_CHECK(status == CUDNN_STATUS_SUCCESS, DeviceError, "cudnn: ", what, ": ", cudnnGetErrorString(status));
}

/// Whether the library says that it has no such convolution: what follows from the question alone. All else is a
/// failure of the moment, and throws: another algorithm would give other bits.
bool is_refusal(cudnnStatus_t status) {
  const int category = CUDNN_STATUS_CATEGORY(static_cast<int>(status));
  return category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM;
}

struct Descriptors {
  TensorDescriptor x, y;
  FilterDescriptor filter;
  ConvolutionDescriptor convolution;
};

Descriptors make_descriptors() {
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

/// Fills in the numbers. Dimensions stand in the order N, C, sizes whatever the format says of the memory.
cudnnStatus_t describe(const ConvolutionNumbers& n, cudnnMathType_t math, const Descriptors& d) {
  const cudnnTensorFormat_t format = n.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  const auto rank = static_cast<int>(n.x.size());
  cudnnStatus_t status = cudnnSetTensorNdDescriptorEx(d.x.get(), format, CUDNN_DATA_FLOAT, rank, n.x.data());
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = cudnnSetTensorNdDescriptorEx(d.y.get(), format, CUDNN_DATA_FLOAT, rank, n.y.data());
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = cudnnSetFilterNdDescriptor(d.filter.get(), CUDNN_DATA_FLOAT, format, rank, n.filter.data());
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = cudnnSetConvolutionNdDescriptor(d.convolution.get(), rank - 2, n.padding.data(), n.stride.data(),
                                           n.dilation.data(), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = cudnnSetConvolutionGroupCount(d.convolution.get(), n.groups);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return cudnnSetConvolutionMathType(d.convolution.get(), math);
}

/// What one execution is given beside descriptors and algorithm.
struct Execution {
  const KernelArguments& arguments;
  void* scratch;
  std::size_t scratch_bytes;
};
constexpr float kOne = 1, kZero = 0;  // y = one result + zero y, which is not read then

// The three convolutions, each: its algorithms; which of them sum products as they are (Fourier's and Winograd's
// transforms err more, and let one infinity reach its neighbours); and the library's calls. `filter` is in cuDNN's
// layout.

/// Inputs: x, w.
struct Forward {
  using Algorithm = cudnnConvolutionFwdAlgo_t;
  using Candidate = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr int kNumAlgorithms = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  static constexpr bool kWritesFilter = false;

  static bool sums_products(Algorithm algorithm) {
    return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM ||
           algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM ||
           algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM || algorithm == CUDNN_CONVOLUTION_FWD_ALGO_DIRECT;
  }
  static cudnnStatus_t find(cudnnHandle_t handle, const Descriptors& d, int* count, Candidate* found) {
    return cudnnGetConvolutionForwardAlgorithm_v7(handle, d.x.get(), d.filter.get(), d.convolution.get(), d.y.get(),
                                                  kNumAlgorithms, count, found);
  }
  static cudnnStatus_t scratch(cudnnHandle_t handle, const Descriptors& d, Algorithm algorithm, std::size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(handle, d.x.get(), d.filter.get(), d.convolution.get(), d.y.get(),
                                                   algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, Algorithm algorithm, const Execution& e,
                           const void* filter) {
    return cudnnConvolutionForward(handle, &kOne, d.x.get(), e.arguments.inputs[0], d.filter.get(), filter,
                                   d.convolution.get(), algorithm, e.scratch, e.scratch_bytes, &kZero, d.y.get(),
                                   e.arguments.outputs[0]);
  }
};

/// Inputs: dy, w.
struct BackwardInput {
  using Algorithm = cudnnConvolutionBwdDataAlgo_t;
  using Candidate = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr int kNumAlgorithms = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
  static constexpr bool kWritesFilter = false;

  static bool sums_products(Algorithm algorithm) {
    return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 || algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  }
  static cudnnStatus_t find(cudnnHandle_t handle, const Descriptors& d, int* count, Candidate* found) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, d.filter.get(), d.y.get(), d.convolution.get(),
                                                       d.x.get(), kNumAlgorithms, count, found);
  }
  static cudnnStatus_t scratch(cudnnHandle_t handle, const Descriptors& d, Algorithm algorithm, std::size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, d.filter.get(), d.y.get(), d.convolution.get(),
                                                        d.x.get(), algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, Algorithm algorithm, const Execution& e,
                           const void* filter) {
    return cudnnConvolutionBackwardData(handle, &kOne, d.filter.get(), filter, d.y.get(), e.arguments.inputs[0],
                                        d.convolution.get(), algorithm, e.scratch, e.scratch_bytes, &kZero, d.x.get(),
                                        e.arguments.outputs[0]);
  }
};

/// Inputs: dy, x. The output is the filter.
struct BackwardFilter {
  using Algorithm = cudnnConvolutionBwdFilterAlgo_t;
  using Candidate = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr int kNumAlgorithms = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  static constexpr bool kWritesFilter = true;

  static bool sums_products(Algorithm algorithm) {
    return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 || algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 ||
           algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
  }
  static cudnnStatus_t find(cudnnHandle_t handle, const Descriptors& d, int* count, Candidate* found) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, d.x.get(), d.y.get(), d.convolution.get(),
                                                         d.filter.get(), kNumAlgorithms, count, found);
  }
  static cudnnStatus_t scratch(cudnnHandle_t handle, const Descriptors& d, Algorithm algorithm, std::size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, d.x.get(), d.y.get(), d.convolution.get(),
                                                          d.filter.get(), algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, Algorithm algorithm, const Execution& e,
                           void* filter) {
    return cudnnConvolutionBackwardFilter(handle, &kOne, d.x.get(), e.arguments.inputs[1], d.y.get(),
                                          e.arguments.inputs[0], d.convolution.get(), algorithm, e.scratch,
                                          e.scratch_bytes, &kZero, d.filter.get(), filter);
  }
};

template <class Direction>
struct Choice {
  typename Direction::Algorithm algorithm;
  std::size_t scratch_bytes = 0;
};

/// The first of the heuristic's candidates, fastest first, that sums alike every time, exactly, and in little memory.
template <class Direction>
std::optional<Choice<Direction>> choose_algorithm(cudnnHandle_t handle, const Descriptors& d, bool allow_tf32) {
  std::array<typename Direction::Candidate, Direction::kNumAlgorithms> found{};
  int num_found = 0;
  const cudnnStatus_t status = Direction::find(handle, d, &num_found, found.data());
  if (is_refusal(status)) return std::nullopt;
  check_cudnn(status, "choice of an algorithm");
  for (int i = 0; i < num_found; ++i) {
    const auto& candidate = found[static_cast<std::size_t>(i)];
    const bool on_tensor_cores =
        candidate.mathType == CUDNN_TENSOR_OP_MATH || candidate.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
    if (candidate.status != CUDNN_STATUS_SUCCESS || candidate.determinism != CUDNN_DETERMINISTIC ||
        !Direction::sums_products(candidate.algo) || (on_tensor_cores && !allow_tf32)) {
      continue;
    }
    // A candidate is an algorithm with its kind of arithmetic, which is the descriptor's to say.
    if (allow_tf32) check_cudnn(cudnnSetConvolutionMathType(d.convolution.get(), candidate.mathType), "arithmetic");
    Choice<Direction> choice{.algorithm = candidate.algo};
    const cudnnStatus_t asked = Direction::scratch(handle, d, choice.algorithm, &choice.scratch_bytes);
    if (is_refusal(asked)) continue;
    check_cudnn(asked, "size of the workspace");
    if (choice.scratch_bytes <= gpu::kMostLibraryWorkspace) return choice;
  }
  return std::nullopt;
}

template <class Direction>
class CudnnKernel final : public Kernel {
 public:
  CudnnKernel(cudnnHandle_t handle, Descriptors descriptors, const Choice<Direction>& choice,
              const ConvolutionNumbers& numbers)
      : handle_(handle), descriptors_(std::move(descriptors)), choice_(choice), copy_(numbers.filter_copy) {
    if (!copy_.is_identity()) {
      filter_bytes_ = round_up(static_cast<std::size_t>(numbers.filter_elements()) * sizeof(float));
    }
  }

  std::string implementation() const override {
    return text_of("cudnn algorithm ", static_cast<int>(choice_.algorithm));
  }
  /// The filter in cuDNN's layout, behind it the algorithm's own.
  std::size_t workspace_bytes() const override { return filter_bytes_ + choice_.scratch_bytes; }

  void launch(const KernelArguments& arguments) override {
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    const Execution execution{.arguments = arguments,
                              .scratch = choice_.scratch_bytes == 0 ? nullptr : workspace + filter_bytes_,
                              .scratch_bytes = choice_.scratch_bytes};
    if constexpr (Direction::kWritesFilter) {
      void* result = arguments.outputs[0];
      run(execution, filter_bytes_ == 0 ? result : workspace);
      if (filter_bytes_ > 0) gpu::transpose_matrices(arguments.queue, copy_.inverse(), workspace, result);
    } else {
      const void* filter = arguments.inputs[1];
      if (filter_bytes_ > 0) gpu::transpose_matrices(arguments.queue, copy_, filter, workspace);
      run(execution, filter_bytes_ == 0 ? filter : workspace);
    }
  }

 private:
  template <class Filter>
  void run(const Execution& execution, Filter* filter) {
    check_cudnn(Direction::run(handle_, descriptors_, choice_.algorithm, execution, filter), "convolution");
  }

  cudnnHandle_t handle_;
  Descriptors descriptors_;
  Choice<Direction> choice_;
  gpu::MatrixTranspose copy_;
  std::size_t filter_bytes_ = 0;
};

/// x and w: the shapes of the convolution's image and filter, wherever the request has them.
template <class Direction>
std::unique_ptr<Kernel> make_kernel(const KernelRequest& request, const Shape& x, const Shape& w) {
  const auto& options = request.node.options<ConvolutionOptions>();
  const auto numbers = gpu::convolution_numbers(convolution_geometry(x, w, options, request.node.label()));
  if (!numbers) return nullptr;
  auto& device = static_cast<CudaDevice&>(request.device);
  // Restricted to kernels of fused multiply-adds in f32, or the library's default, which rounds to TF32.
  const cudnnMathType_t math = device.allow_tf32() ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
  Descriptors descriptors = make_descriptors();
  const cudnnStatus_t described = describe(*numbers, math, descriptors);
  if (is_refusal(described)) return nullptr;
  check_cudnn(described, "description of a convolution");
  const auto choice = choose_algorithm<Direction>(device.cudnn(), descriptors, device.allow_tf32());
  if (!choice) return nullptr;
  return std::make_unique<CudnnKernel<Direction>>(device.cudnn(), std::move(descriptors), *choice, *numbers);
}

std::unique_ptr<Kernel> make_forward(const KernelRequest& request) {
  return make_kernel<Forward>(request, request.inputs[0].shape, request.inputs[1].shape);
}
// A transposed convolution is this gradient: its w is the filter of the convolution that it transposes.
std::unique_ptr<Kernel> make_backward_input(const KernelRequest& request) {
  return make_kernel<BackwardInput>(request, request.outputs[0].shape, request.inputs[1].shape);
}
std::unique_ptr<Kernel> make_backward_filter(const KernelRequest& request) {
  return make_kernel<BackwardFilter>(request, request.inputs[1].shape, request.outputs[0].shape);
}

}  // namespace

void add_cudnn_kernels(KernelRegistry& registry) {
  for (const char* rank : {"2d", "3d"}) {
    registry.add(text_of("conv", rank), make_forward);
    registry.add(text_of("conv", rank, "_backward_input"), make_backward_input);
    registry.add(text_of("conv", rank, "_backward_filter"), make_backward_filter);
    registry.add(text_of("conv_transpose", rank), make_backward_input);
  }
}

}  // namespace sectionflow

#endif
