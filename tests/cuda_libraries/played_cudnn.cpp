// The calls of cuDNN that need a GPU, played on the host.

#include <cudnn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

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

// All three kinds of convolutions call a sound algorithm 1 and a transform 4 (Fourier's, or Winograd's); the gradient
// of the input has no other sound one, the others have 3.
constexpr int kUnordered = 0, kTransform = 4;
constexpr std::array<int, 2> kSound = {1, 3};

template <class Algorithm>
int number_of(Algorithm algorithm) {
  const auto found = std::find(kSound.begin(), kSound.end(), static_cast<int>(algorithm));
  EXPECT_NE(found, kSound.end()) << static_cast<int>(algorithm);
  return found == kSound.end() ? 0 : static_cast<int>(found - kSound.begin());
}

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
  std::vector<Candidate> all = {candidate(kTransform, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH),
                                candidate(kSound[0], CUDNN_STATUS_NOT_SUPPORTED, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH),
                                candidate(kUnordered, CUDNN_STATUS_SUCCESS, CUDNN_NON_DETERMINISTIC, CUDNN_FMA_MATH)};
  const std::size_t most = std::is_same_v<Candidate, cudnnConvolutionBwdDataAlgoPerf_t> ? 1 : kSound.size();
  const std::vector<int> sound = offered_algorithms(most);
  for (cudnnMathType_t math : {CUDNN_TENSOR_OP_MATH, CUDNN_FMA_MATH}) {
    for (int number : sound) {
      if (!libraries.has_sound_algorithms || (libraries.allow_tf32 && math == CUDNN_FMA_MATH)) continue;
      all.push_back(
          candidate(kSound[static_cast<std::size_t>(number)], CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC, math));
    }
  }
  *found = std::min(wanted, static_cast<int>(all.size()));
  std::copy_n(all.begin(), *found, candidates);
  return libraries.cudnn_status;
}

/// A convolution and the algorithm that is asked for it.
template <class Algorithm>
cudnnStatus_t tell_workspace(const Convolution&, Algorithm algorithm, std::size_t* bytes) {
  (void)number_of(algorithm);
  *bytes = played_libraries().workspace_bytes;
  return CUDNN_STATUS_SUCCESS;
}

/// What all executions are given besides their tensors. Whether it is refused.
template <class Algorithm>
bool is_refused(cudnnHandle_t handle, cudnnConvolutionDescriptor_t convolution, Algorithm algorithm, const void* alpha,
                const void* beta, void* workspace, std::size_t workspace_bytes) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(handle), 0x22u);
  cudnnMathType_t math{};
  EXPECT_EQ(cudnnGetConvolutionMathType(convolution, &math), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(math, played_libraries().allow_tf32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH);
  const int number = number_of(algorithm);
  if (number == played_libraries().refused) return true;
  check_execution(number, alpha, beta, workspace, workspace_bytes);
  return false;
}

using Floats = const float*;
/// The result of a convolution whose products `add` adds up.
template <class Add>
cudnnStatus_t compute(const Convolution& c, const Layout& result, void* sums, const Add& add) {
  std::fill_n(static_cast<float*>(sums), result.num_elements(), 0.0F);
  c.visit_products(add);
  return CUDNN_STATUS_SUCCESS;
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
  if (is_refused(handle, convolution, algorithm, alpha, beta, workspace, workspace_bytes)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  const Convolution c(x_tensor, filter, convolution, y_tensor);
  return compute(c, c.y, y, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    static_cast<float*>(y)[k] += static_cast<Floats>(x)[i] * static_cast<Floats>(w)[j];
  });
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t filter,
                                           const void* w, cudnnTensorDescriptor_t y_tensor, const void* dy,
                                           cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t x_tensor, void* dx) {
  if (is_refused(handle, convolution, algorithm, alpha, beta, workspace, workspace_bytes)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  const Convolution c(x_tensor, filter, convolution, y_tensor);
  return compute(c, c.x, dx, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    static_cast<float*>(dx)[i] += static_cast<Floats>(dy)[k] * static_cast<Floats>(w)[j];
  });
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_tensor,
                                             const void* x, cudnnTensorDescriptor_t y_tensor, const void* dy,
                                             cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t workspace_bytes, const void* beta,
                                             cudnnFilterDescriptor_t filter, void* dw) {
  if (is_refused(handle, convolution, algorithm, alpha, beta, workspace, workspace_bytes)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  const Convolution c(x_tensor, filter, convolution, y_tensor);
  return compute(c, c.filter, dw, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    static_cast<float*>(dw)[j] += static_cast<Floats>(dy)[k] * static_cast<Floats>(x)[i];
  });
}

}  // extern "C"
