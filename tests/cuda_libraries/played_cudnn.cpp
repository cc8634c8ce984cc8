// The calls of cuDNN that need a GPU, played on the host.

#include <cudnn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>

#include "tests/cuda_libraries/played_libraries.h"

namespace sectionflow::testing_support {
namespace {

constexpr int kMostDims = 5;
using Index = std::array<int, kMostDims>;

/// Dimensions and strides in the order N, C, sizes (of filters: F, C / groups, window).
struct Layout {
  int rank = 0;
  Index dims{}, strides{};

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
  cudnnDataType_t type{};
  EXPECT_EQ(
      cudnnGetTensorNdDescriptor(tensor, kMostDims, &type, &layout.rank, layout.dims.data(), layout.strides.data()),
      CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(type, CUDNN_DATA_FLOAT);
  return layout;
}

/// Filters are dense: F outermost, then the channels or the window, as the format says.
Layout layout_of(cudnnFilterDescriptor_t filter) {
  Layout layout;
  cudnnDataType_t type{};
  cudnnTensorFormat_t format{};
  EXPECT_EQ(cudnnGetFilterNdDescriptor(filter, kMostDims, &type, &format, &layout.rank, layout.dims.data()),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(type, CUDNN_DATA_FLOAT);
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

struct Convolution {
  Layout x, filter, y;
  Index padding{}, stride{}, dilation{};
  int groups = 1;

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
    EXPECT_EQ(type, CUDNN_DATA_FLOAT);
    EXPECT_EQ(cudnnGetConvolutionGroupCount(convolution, &groups), CUDNN_STATUS_SUCCESS);
    // The library's own word on what y is.
    Index outputs{};
    EXPECT_EQ(cudnnGetConvolutionNdForwardOutputDim(convolution, x_tensor, w, x.rank, outputs.data()),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(outputs, y.dims);
  }

  /// Calls visit(x's place, filter's place, y's place) for each product.
  void visit_products(const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit) const {
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
        if (inside) visit(x.place(from), filter.place(tap), y.place(out));
      }
    }
  }
};

// All three kinds of convolutions call their first sound algorithm 1, and a transform 4 (Fourier's, or Winograd's).
constexpr int kUnordered = 0, kSound = 1, kTransform = 4;

template <class Candidate>
cudnnStatus_t offer(int wanted, int* found, Candidate* candidates) {
  const PlayedLibraries& libraries = played_libraries();
  const auto candidate = [](int algorithm, cudnnStatus_t status, cudnnDeterminism_t determinism, cudnnMathType_t math) {
    Candidate result{};
    result.algo = static_cast<decltype(result.algo)>(algorithm);
    result.status = status;
    result.determinism = determinism;
    result.mathType = math;
    return result;
  };
  const std::array<Candidate, 5> all = {
      candidate(kTransform, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH),
      candidate(kSound, CUDNN_STATUS_NOT_SUPPORTED, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH),
      candidate(kUnordered, CUDNN_STATUS_SUCCESS, CUDNN_NON_DETERMINISTIC, CUDNN_FMA_MATH),
      candidate(kSound, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC, CUDNN_TENSOR_OP_MATH),
      candidate(kSound, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH)};
  *found = std::min(wanted, libraries.has_sound_algorithms ? 5 : 3);
  std::copy_n(all.begin(), *found, candidates);
  return libraries.cudnn_status;
}

template <class Algorithm>
cudnnStatus_t tell_workspace(Algorithm algorithm, std::size_t* bytes) {
  EXPECT_EQ(static_cast<int>(algorithm), kSound);
  *bytes = played_libraries().workspace_bytes;
  return CUDNN_STATUS_SUCCESS;
}

template <class Algorithm>
void check_call(cudnnHandle_t handle, cudnnConvolutionDescriptor_t convolution, Algorithm algorithm) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(handle), 0x22u);
  EXPECT_EQ(static_cast<int>(algorithm), kSound);
  cudnnMathType_t math{};
  EXPECT_EQ(cudnnGetConvolutionMathType(convolution, &math), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(math, played_libraries().allow_tf32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH);
}

/// The output that `layout` describes, filled with zeros.
float* cleared(void* data, const Layout& layout) {
  auto* output = static_cast<float*>(data);
  std::fill_n(output, layout.num_elements(), 0.0F);
  return output;
}

}  // namespace
}  // namespace sectionflow::testing_support

using namespace sectionflow::testing_support;

extern "C" {

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                                                     cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, int wanted,
                                                     int* found, cudnnConvolutionFwdAlgoPerf_t* candidates) {
  return offer(wanted, found, candidates);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t,
                                                          cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
                                                          cudnnTensorDescriptor_t, int wanted, int* found,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* candidates) {
  return offer(wanted, found, candidates);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                            cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
                                                            cudnnFilterDescriptor_t, int wanted, int* found,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* candidates) {
  return offer(wanted, found, candidates);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t c,
                                                      cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algorithm,
                                                      std::size_t* bytes) {
  (void)Convolution(x, w, c, y);
  return tell_workspace(algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                           cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t c,
                                                           cudnnTensorDescriptor_t x,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           std::size_t* bytes) {
  (void)Convolution(x, w, c, y);
  return tell_workspace(algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                             cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t c,
                                                             cudnnFilterDescriptor_t w,
                                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                                             std::size_t* bytes) {
  (void)Convolution(x, w, c, y);
  return tell_workspace(algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_tensor,
                                      const void* x, cudnnFilterDescriptor_t filter, const void* w,
                                      cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, std::size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_tensor, void* y) {
  check_call(handle, convolution, algorithm);
  check_execution(alpha, beta, workspace, workspace_bytes);
  const Convolution c(x_tensor, filter, convolution, y_tensor);
  float* result = cleared(y, c.y);
  c.visit_products([&](std::int64_t i, std::int64_t j, std::int64_t k) {
    result[k] += static_cast<const float*>(x)[i] * static_cast<const float*>(w)[j];
  });
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t filter,
                                           const void* w, cudnnTensorDescriptor_t y_tensor, const void* dy,
                                           cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t x_tensor, void* dx) {
  check_call(handle, convolution, algorithm);
  check_execution(alpha, beta, workspace, workspace_bytes);
  const Convolution c(x_tensor, filter, convolution, y_tensor);
  float* result = cleared(dx, c.x);
  c.visit_products([&](std::int64_t i, std::int64_t j, std::int64_t k) {
    result[i] += static_cast<const float*>(dy)[k] * static_cast<const float*>(w)[j];
  });
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_tensor,
                                             const void* x, cudnnTensorDescriptor_t y_tensor, const void* dy,
                                             cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t workspace_bytes, const void* beta,
                                             cudnnFilterDescriptor_t filter, void* dw) {
  check_call(handle, convolution, algorithm);
  check_execution(alpha, beta, workspace, workspace_bytes);
  const Convolution c(x_tensor, filter, convolution, y_tensor);
  float* result = cleared(dw, c.filter);
  c.visit_products([&](std::int64_t i, std::int64_t j, std::int64_t k) {
    result[j] += static_cast<const float*>(dy)[k] * static_cast<const float*>(x)[i];
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
