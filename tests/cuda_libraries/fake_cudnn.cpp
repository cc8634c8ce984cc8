// Fakes of the calls of cuDNN that need a GPU: they compute on the host.

#include <cudnn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "tests/cuda_libraries/fake_libraries.h"

namespace sectionflow::testing_support {
namespace {

constexpr std::uintptr_t kHandle = 0x22;
std::atomic<int> num_handles = 0, num_inside = 0;
std::atomic<cudaStream_t> current_stream = nullptr;

constexpr int kMostDims = 5;
using Index = std::array<int, kMostDims>;

/// Dimensions and strides in the order N, C, sizes (of filters: F, C / groups, window).
struct Layout {
  int rank = 0;
  Index dims{}, strides{};
  cudnnDataType_t type{};

  std::int64_t num_elements() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= dims[i];
    return product;
  }
  std::int64_t place(const Index& index) const {
    std::int64_t sum = 0;
    for (int i = 0; i < rank; ++i) sum += std::int64_t{index[i]} * strides[i];
    return sum;
  }
  Index index(std::int64_t number) const {
    Index index{};
    for (int i = rank - 1; i >= 0; --i) {
      index[i] = static_cast<int>(number % dims[i]);
      number /= dims[i];
    }
    return index;
  }
};

Layout layout_of(cudnnTensorDescriptor_t tensor) {
  Layout layout;
  EXPECT_EQ(cudnnGetTensorNdDescriptor(tensor, kMostDims, &layout.type, &layout.rank, layout.dims.data(),
                                       layout.strides.data()),
            CUDNN_STATUS_SUCCESS);
  return layout;
}

/// Filters are dense: F outermost, then the channels or the window, as the format says.
Layout layout_of(cudnnFilterDescriptor_t filter) {
  Layout layout;
  cudnnTensorFormat_t format{};
  EXPECT_EQ(cudnnGetFilterNdDescriptor(filter, kMostDims, &layout.type, &format, &layout.rank, layout.dims.data()),
            CUDNN_STATUS_SUCCESS);
  int stride = 1;
  const auto place_axis = [&](int axis) {
    layout.strides[axis] = stride;
    stride *= layout.dims[axis];
  };
  if (format == CUDNN_TENSOR_NHWC) place_axis(1);
  for (int axis = layout.rank - 1; axis >= 2; --axis) place_axis(axis);
  if (format == CUDNN_TENSOR_NCHW) place_axis(1);
  place_axis(0);
  return layout;
}

/// The elements of x, filter and y that belong to one product.
using Places = std::array<std::size_t, 3>;
constexpr std::size_t kX = 0, kFilter = 1, kY = 2;

struct Convolution {
  Layout x, filter, y;
  Index padding{}, stride{}, dilation{};
  int groups = 1;
  cudnnMathType_t math{};
  bool is_bf16 = false;

  Convolution(cudnnTensorDescriptor_t x_tensor, cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t convolution,
              cudnnTensorDescriptor_t y_tensor)
      : x(layout_of(x_tensor)), filter(layout_of(w)), y(layout_of(y_tensor)) {
    int rank = 0;
    cudnnConvolutionMode_t mode{};
    cudnnDataType_t type{};
    EXPECT_EQ(cudnnGetConvolutionNdDescriptor(convolution, x.rank - 2, &rank, padding.data(), stride.data(),
                                              dilation.data(), &mode, &type),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(rank, x.rank - 2);
    EXPECT_EQ(mode, CUDNN_CROSS_CORRELATION);
    // The two configurations of the library that we use: all of f32, and bf16 that is computed in f32.
    EXPECT_EQ(type, CUDNN_DATA_FLOAT);
    is_bf16 = x.type == CUDNN_DATA_BFLOAT16;
    EXPECT_EQ(x.type, is_bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT);
    EXPECT_TRUE(filter.type == x.type && y.type == x.type);
    EXPECT_EQ(cudnnGetConvolutionMathType(convolution, &math), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnGetConvolutionGroupCount(convolution, &groups), CUDNN_STATUS_SUCCESS);
    // The library's own word on what y is.
    Index outputs{};
    EXPECT_EQ(cudnnGetConvolutionNdForwardOutputDim(convolution, x_tensor, w, x.rank, outputs.data()),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(outputs, y.dims);
  }

  void visit_products(const std::function<void(const Places&)>& visit) const {
    const int group_filters = y.dims[1] / groups;
    for (std::int64_t o = 0; o < y.num_elements(); ++o) {
      const Index out = y.index(o);
      for (std::int64_t t = 0; t < filter.num_elements(); ++t) {
        const Index tap = filter.index(t);
        if (tap[0] != out[1]) continue;
        Index from{out[0], out[1] / group_filters * filter.dims[1] + tap[1]};
        bool inside = true;
        for (int i = 2; i < x.rank; ++i) {
          from[i] = out[i] * stride[i - 2] - padding[i - 2] + tap[i] * dilation[i - 2];
          inside = inside && from[i] >= 0 && from[i] < x.dims[i];
        }
        if (inside) {
          visit({static_cast<std::size_t>(x.place(from)), static_cast<std::size_t>(filter.place(tap)),
                 static_cast<std::size_t>(y.place(out))});
        }
      }
    }
  }
};

// All three kinds of convolutions call a sound algorithm 1 and a transform 4 (Fourier's, or Winograd's); the gradient
// of the input has no other sound one, the others have 3, though of bf16 only the convolution itself: without scratch
// the gradients' others add up what is rounded to bf16.
constexpr int kUnordered = 0, kTransform = 4;
constexpr std::array<int, 2> kSound = {1, 3};

template <class Algorithm>
std::size_t num_sound(const Convolution& c) {
  if (std::is_same_v<Algorithm, cudnnConvolutionFwdAlgo_t>) return 2;
  return std::is_same_v<Algorithm, cudnnConvolutionBwdFilterAlgo_t> && !c.is_bf16 ? 2 : 1;
}

template <class Algorithm>
int number_of(const Convolution& c, Algorithm algorithm) {
  const auto end = kSound.begin() + num_sound<Algorithm>(c);
  const auto found = std::find(kSound.begin(), end, static_cast<int>(algorithm));
  EXPECT_NE(found, end) << static_cast<int>(algorithm);
  return found == end ? 0 : static_cast<int>(found - kSound.begin());
}

/// Where f32 must not be rounded, tensor cores are offered too, and must not be taken.
bool runs_on_tensor_cores(const Convolution& c) {
  return c.is_bf16 || fake_libraries().allow_tf32;
}

template <class Candidate>
cudnnStatus_t offer(const Convolution& c, int wanted, int* found, Candidate* candidates) {
  using Algorithm = decltype(Candidate::algo);
  const FakeLibraries& libraries = fake_libraries();
  EXPECT_EQ(c.math, c.is_bf16 ? CUDNN_TENSOR_OP_MATH : libraries.allow_tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH);
  const auto candidate = [](int algorithm, cudnnStatus_t status, cudnnDeterminism_t determinism, cudnnMathType_t math) {
    Candidate result{};
    result.algo = static_cast<Algorithm>(algorithm);
    result.status = status;
    result.determinism = determinism;
    result.mathType = math;
    return result;
  };
  std::vector<Candidate> all = {candidate(kTransform, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH),
                                candidate(kSound[0], CUDNN_STATUS_NOT_SUPPORTED, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH),
                                candidate(kUnordered, CUDNN_STATUS_SUCCESS, CUDNN_NON_DETERMINISTIC, CUDNN_FMA_MATH)};
  if (runs_on_tensor_cores(c)) {  // factors as f16
    all.push_back(
        candidate(kSound[0], CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION));
  }
  if (c.is_bf16) {
    // Sums that are said to be in order, but in bf16.
    if (!std::is_same_v<Algorithm, cudnnConvolutionFwdAlgo_t>) {
      all.push_back(candidate(kUnordered, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC, CUDNN_TENSOR_OP_MATH));
    }
    if (std::is_same_v<Algorithm, cudnnConvolutionBwdFilterAlgo_t>) {
      all.push_back(candidate(kSound[1], CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC, CUDNN_TENSOR_OP_MATH));
    }
  }
  const std::vector<int> sound = offered_algorithms(num_sound<Algorithm>(c));
  for (cudnnMathType_t math : {CUDNN_TENSOR_OP_MATH, CUDNN_FMA_MATH}) {
    for (int number : sound) {
      if (!libraries.has_sound_algorithms || (runs_on_tensor_cores(c) && math == CUDNN_FMA_MATH)) continue;
      all.push_back(
          candidate(kSound[static_cast<std::size_t>(number)], CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC, math));
    }
  }
  if (c.is_bf16 && !libraries.convolves_bf16) {
    for (Candidate& each : all) each.status = CUDNN_STATUS_NOT_SUPPORTED;
  }
  EXPECT_LE(static_cast<int>(all.size()), wanted) << "the sound ones come last";
  *found = std::min(wanted, static_cast<int>(all.size()));
  std::copy_n(all.begin(), *found, candidates);
  return libraries.cudnn_status;
}

/// A convolution and the algorithm that is asked for it.
template <class Algorithm>
cudnnStatus_t tell_workspace(const Convolution& c, Algorithm algorithm, std::size_t* bytes) {
  const int number = number_of(c, algorithm);
  *bytes = workspace_of(number);
  return number == 0 && !fake_libraries().tells_workspace ? CUDNN_STATUS_INTERNAL_ERROR : CUDNN_STATUS_SUCCESS;
}

/// What all executions are given besides their tensors. Whether it is refused.
template <class Algorithm>
bool is_refused(cudnnHandle_t handle, const Convolution& c, Algorithm algorithm, const void* alpha, const void* beta,
                void* workspace, std::size_t workspace_bytes) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(handle), kHandle);
  EXPECT_EQ(c.math, runs_on_tensor_cores(c) ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH);
  const int number = number_of(c, algorithm);
  if (refuses(number)) return true;
  check_execution(number, alpha, beta, workspace, workspace_bytes);
  return false;
}

/// A tensor of a convolution: which of them it is, and its elements.
struct Factor {
  std::size_t tensor;
  const void* elements;
};

/// The third tensor from two, summed in float and rounded once.
template <class Element>
void compute_of(const Convolution& c, const Factor& first, const Factor& second, std::size_t third, void* result) {
  const Layout& layout = third == kX ? c.x : third == kFilter ? c.filter : c.y;
  std::vector<float> sums(static_cast<std::size_t>(layout.num_elements()));
  c.visit_products([&](const Places& places) {
    sums[places[third]] += static_cast<float>(static_cast<const Element*>(first.elements)[places[first.tensor]]) *
                           static_cast<float>(static_cast<const Element*>(second.elements)[places[second.tensor]]);
  });
  std::transform(sums.begin(), sums.end(), static_cast<Element*>(result), [](float sum) { return Element(sum); });
}
cudnnStatus_t compute(const Convolution& c, const Factor& first, const Factor& second, std::size_t third,
                      void* result) {
  const cudaStream_t stream = current_stream;
  EXPECT_NE(stream, nullptr);
  EXPECT_EQ(++num_inside, 1) << "a handle is for one thread at a time";
  (c.is_bf16 ? compute_of<BFloat16> : compute_of<float>)(c, first, second, third, result);
  --num_inside;
  EXPECT_EQ(current_stream, stream);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

int num_cudnn_handles() {
  return num_handles;
}
cudaStream_t cudnn_stream() {
  return current_stream;
}

}  // namespace sectionflow::testing_support

using namespace sectionflow::testing_support;

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  ++num_handles;
  *handle = reinterpret_cast<cudnnHandle_t>(kHandle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(handle), kHandle);
  EXPECT_EQ(num_inside, 0);
  current_stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t c,
                                                     cudnnTensorDescriptor_t y, int wanted, int* found,
                                                     cudnnConvolutionFwdAlgoPerf_t* candidates) {
  return offer(Convolution(x, w, c, y), wanted, found, candidates);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t c,
                                                          cudnnTensorDescriptor_t x, int wanted, int* found,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* candidates) {
  return offer(Convolution(x, w, c, y), wanted, found, candidates);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                            cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t c,
                                                            cudnnFilterDescriptor_t w, int wanted, int* found,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* candidates) {
  return offer(Convolution(x, w, c, y), wanted, found, candidates);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t c,
                                                      cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algorithm,
                                                      std::size_t* bytes) {
  return tell_workspace(Convolution(x, w, c, y), algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                           cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t c,
                                                           cudnnTensorDescriptor_t x,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           std::size_t* bytes) {
  return tell_workspace(Convolution(x, w, c, y), algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                             cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t c,
                                                             cudnnFilterDescriptor_t w,
                                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                                             std::size_t* bytes) {
  return tell_workspace(Convolution(x, w, c, y), algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_tensor,
                                      const void* x, cudnnFilterDescriptor_t filter, const void* w,
                                      cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, std::size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_tensor, void* y) {
  const Convolution c(x_tensor, filter, convolution, y_tensor);
  if (is_refused(handle, c, algorithm, alpha, beta, workspace, workspace_bytes)) return CUDNN_STATUS_NOT_SUPPORTED;
  return compute(c, {kX, x}, {kFilter, w}, kY, y);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t filter,
                                           const void* w, cudnnTensorDescriptor_t y_tensor, const void* dy,
                                           cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t x_tensor, void* dx) {
  const Convolution c(x_tensor, filter, convolution, y_tensor);
  if (is_refused(handle, c, algorithm, alpha, beta, workspace, workspace_bytes)) return CUDNN_STATUS_NOT_SUPPORTED;
  return compute(c, {kFilter, w}, {kY, dy}, kX, dx);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_tensor,
                                             const void* x, cudnnTensorDescriptor_t y_tensor, const void* dy,
                                             cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t workspace_bytes, const void* beta,
                                             cudnnFilterDescriptor_t filter, void* dw) {
  const Convolution c(x_tensor, filter, convolution, y_tensor);
  if (is_refused(handle, c, algorithm, alpha, beta, workspace, workspace_bytes)) return CUDNN_STATUS_NOT_SUPPORTED;
  return compute(c, {kX, x}, {kY, dy}, kFilter, dw);
}

}  // extern "C"
