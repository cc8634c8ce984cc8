// The kernels of cuBLASLt and cuDNN, called as a session calls them, with fake libraries.

#include "kernels/cuda/library/library_kernels.h"

#include "base/error.h"
#include "graph/nodes/convolution.h"
#include "graph/nodes/matmul.h"
#include "graph/ops/convolution.h"
#include "kernels/widened_kernel.h"
#include "tests/cuda_libraries/library_case.h"

namespace sectionflow {
namespace {

using testing_support::fake_libraries;
using CudaLibraries = testing_support::LibraryCase;

TEST_F(CudaLibraries, MultiplyAsTheCpuDoes) {
  for (bool transpose_a : {false, true}) {
    for (bool transpose_b : {false, true}) {
      const MatmulOptions options{.transpose_a = transpose_a, .transpose_b = transpose_b};
      const Shape a = transpose_a ? Shape{7, 5} : Shape{5, 7}, b = transpose_b ? Shape{4, 7} : Shape{7, 4};
      expect_as_on_the_cpu(matmul(tensor(a), tensor(b), options));
      expect_as_on_the_cpu(matmul(tensor({2, 3, a[0], a[1]}), tensor({2, 3, b[0], b[1]}), options));
      if (!transpose_a) expect_as_on_the_cpu(matmul(tensor({2, 3, 5, 7}), tensor(b), options));
    }
  }
  expect_as_on_the_cpu(matmul(tensor({1, 1}), tensor({1, 1})));
  expect_as_on_the_cpu(matmul_over_rows(tensor({3, 4, 5}), tensor({3, 4, 6})));
}

TEST_F(CudaLibraries, MultiplyBf16AsTheCpuDoes) {
  for (bool allow_tf32 : {false, true}) {
    fake_libraries().allow_tf32 = allow_tf32;
    expect_as_on_the_cpu(matmul(tensor({5, 70}, Dtype::bf16), tensor({70, 4}, Dtype::bf16)));
    expect_as_on_the_cpu(
        matmul(tensor({2, 3, 5, 7}, Dtype::bf16), tensor({2, 3, 4, 7}, Dtype::bf16), {.transpose_b = true}));
    expect_as_on_the_cpu(matmul_over_rows(tensor({3, 4, 5}, Dtype::bf16), tensor({3, 4, 6}, Dtype::bf16)));
    expect_as_on_the_cpu(conv2d(tensor({2, 4, 4, 5}, Dtype::bf16), tensor({1, 1, 5, 6}, Dtype::bf16)));
  }
}

/// Whatever is convolved, in f32 and in bf16 as it is: there is nothing here that would widen it.
class CudaConvolutions : public CudaLibraries, public testing::WithParamInterface<Dtype> {};

INSTANTIATE_TEST_SUITE_P(Of, CudaConvolutions, testing::Values(Dtype::f32, Dtype::bf16),
                         [](const auto& dtype) { return std::string(dtype_name(dtype.param)); });

TEST_P(CudaConvolutions, OfImagesAreTheCpus) {
  struct Case {
    std::int64_t height, width, channels;
    Shape w;
    Conv2dOptions options{};
  };
  for (const Case& c :
       {Case{5, 6, 4, {3, 3, 4, 5}}, Case{7, 9, 4, {3, 3, 4, 6}, {.stride = {2, 2}}},
        Case{7, 9, 4, {3, 2, 2, 6}, {.stride = {2, 1}, .padding = Padding(2, 1), .dilation = {1, 2}, .groups = 2}},
        Case{5, 5, 4, {3, 3, 1, 8}, {.groups = 4}}, Case{4, 4, 5, {1, 1, 5, 6}},
        Case{5, 5, 3, {1, 1, 3, 4}, {.stride = {2, 2}}}, Case{5, 5, 1, {1, 1, 1, 1}, {.stride = {2, 2}}}}) {
    Conv2dOptions options = c.options;
    expect_conv2d({2, c.height, c.width, c.channels}, c.w, options, GetParam());
    options.format = DataFormat::nchw;
    expect_conv2d({2, c.channels, c.height, c.width}, c.w, options, GetParam());
  }
}

TEST_P(CudaConvolutions, OfVolumesAreTheCpus) {
  for (DataFormat format : {DataFormat::nhwc, DataFormat::nchw}) {
    const Conv3dOptions options{.stride = {1, 2, 1}, .padding = Padding3d(1, 1, 0), .groups = 2, .format = format};
    const Value x = tensor(format == DataFormat::nhwc ? Shape{2, 4, 5, 6, 4} : Shape{2, 4, 4, 5, 6}, GetParam()),
                w = tensor({2, 3, 2, 2, 6}, GetParam());
    expect_convolution_and_gradients(x, w, conv3d(x, w, options), [&](Value dy, Value x, Value w, bool of_filter) {
      return of_filter ? conv3d_backward_filter(dy, x, w, options) : conv3d_backward_input(dy, w, x, options);
    });
  }
}

TEST_P(CudaConvolutions, TransposedAreTheCpus) {
  for (DataFormat format : {DataFormat::nhwc, DataFormat::nchw}) {
    const bool last = format == DataFormat::nhwc;
    expect_as_on_the_cpu(conv_transpose2d(
        tensor(last ? Shape{2, 4, 5, 6} : Shape{2, 6, 4, 5}, GetParam()), tensor({3, 3, 2, 6}, GetParam()),
        {.stride = {2, 2}, .padding = Padding(1, 1), .output_padding = {1, 0}, .groups = 2, .format = format}));
    expect_as_on_the_cpu(conv_transpose2d(tensor(last ? Shape{2, 4, 5, 6} : Shape{2, 6, 4, 5}, GetParam()),
                                          tensor({1, 1, 2, 6}, GetParam()), {.format = format}));
    expect_as_on_the_cpu(conv_transpose3d(tensor(last ? Shape{1, 3, 4, 5, 6} : Shape{1, 6, 3, 4, 5}, GetParam()),
                                          tensor({3, 2, 1, 2, 6}, GetParam()),
                                          {.stride = {2, 1, 1}, .padding = Padding3d(1, 0, 0), .format = format}));
  }
}

TEST_F(CudaLibraries, LeaveWhatTheyCannotPromise) {
  const Value product = matmul(tensor({2, 3}), tensor({3, 4})),
              convolution = conv2d(tensor({1, 5, 5, 2}), tensor({3, 3, 2, 4}));
  EXPECT_TRUE(is_taken(product) && is_taken(convolution));
  // Nothing to multiply.
  EXPECT_FALSE(is_taken(matmul(tensor({2, 0}), tensor({0, 4}))));
  EXPECT_FALSE(is_taken(conv2d(tensor({0, 6, 6, 2}), tensor({3, 3, 2, 4}), {.stride = {2, 2}})));
  // More scratch than a kernel may ask for.
  use({.workspace_bytes = (std::size_t{32} << 20) + 1});
  EXPECT_FALSE(is_taken(product) || is_taken(convolution));
  use({.has_sound_algorithms = false});
  EXPECT_FALSE(is_taken(product) || is_taken(convolution));
  use({.cublas_status = CUBLAS_STATUS_NOT_SUPPORTED, .cudnn_status = CUDNN_STATUS_NOT_SUPPORTED});
  EXPECT_FALSE(is_taken(product) || is_taken(convolution));
}

TEST_P(CudaConvolutions, WithoutAPromiseAreLeft) {
  const Value x = tensor({1, 5, 5, 2}, GetParam()), w = tensor({3, 3, 2, 4}, GetParam()), y = conv2d(x, w),
              dy = tensor({1, 5, 5, 4}, GetParam()), dx = conv2d_backward_input(dy, w, x, {}),
              dw = conv2d_backward_filter(dy, x, w, {});
  const auto num_taken = [&] { return is_taken(y) + is_taken(dx) + is_taken(dw); };
  EXPECT_EQ(num_taken(), 3);
  use({.workspace_bytes = (std::size_t{32} << 20) + 1});
  EXPECT_EQ(num_taken(), 0);
  use({.has_sound_algorithms = false});
  EXPECT_EQ(num_taken(), 0);
  use({.convolves_bf16 = false});
  EXPECT_EQ(num_taken(), GetParam() == Dtype::bf16 ? 0 : 3);
  use({.cudnn_status = CUDNN_STATUS_NOT_SUPPORTED});
  EXPECT_EQ(num_taken(), 0);
  const Value uneven = conv2d(tensor({1, 6, 6, 2}, GetParam()), w, {.stride = {2, 2}});
  EXPECT_FALSE(is_taken(uneven));
  use({});
  EXPECT_TRUE(is_taken(uneven));
}

TEST_P(CudaConvolutions, MayHaveAsMuchScratchAsTheirOperandsWhereNoneNeedsLess) {
  const Value x = tensor({1, 3000, 3000, 2}, GetParam()), y = conv2d(x, tensor({1, 3, 2, 4}, GetParam()));
  const std::size_t operands = x.type().bytes() + y.type().bytes();
  use({.workspace_bytes = operands});
  EXPECT_TRUE(is_taken(y));
  use({.workspace_bytes = operands + operands / 2});
  EXPECT_FALSE(is_taken(y));
}

TEST_P(CudaConvolutions, WithMoreZerosOnOneSideAreTheCpus) {
  for (DataFormat format : {DataFormat::nhwc, DataFormat::nchw}) {
    const bool last = format == DataFormat::nhwc;
    // Of both axes, or of one: behind the image as TensorFlow has them, or before it.
    for (const Conv2dOptions& options :
         {Conv2dOptions{.stride = {2, 2}, .format = format},
          Conv2dOptions{.stride = {2, 1}, .padding = Padding({2, 1}, {0, 1}), .groups = 2, .format = format},
          Conv2dOptions{.padding = Padding({0, 1}, {3, 2}), .dilation = {2, 1}, .format = format}}) {
      expect_conv2d(last ? Shape{2, 6, 8, 4} : Shape{2, 4, 6, 8}, {3, 3, 4 / options.groups, 6}, options, GetParam());
    }
    expect_as_on_the_cpu(conv_transpose2d(tensor(last ? Shape{2, 4, 5, 6} : Shape{2, 6, 4, 5}, GetParam()),
                                          tensor({3, 3, 4, 6}, GetParam()), {.stride = {2, 2}, .format = format}));
  }
  EXPECT_EQ(make(conv2d(tensor({1, 6, 6, 2}, GetParam()), tensor({3, 3, 2, 4}, GetParam()), {.stride = {2, 2}}))
                ->implementation(),
            "cudnn algorithm 1, padded in scratch");
}

TEST_F(CudaLibraries, PadNoMoreImagesAtOnceThanScratchMayHold) {
  // Each a little more than half of that.
  const Value x = tensor({2, 2952, 1502, 1}), w = tensor({3, 3, 1, 4}), dy = tensor({2, 60, 31, 4});
  const Conv2dOptions options{.stride = {50, 50}};
  for (Value y : {conv2d(x, w, options), conv2d_backward_input(dy, w, x, options)}) {
    EXPECT_EQ(make(y)->implementation(), "cudnn algorithm 1, padded in scratch, batch in 2");
    EXPECT_LT(make(y)->workspace_bytes(), std::size_t{18} << 20);
    expect_as_on_the_cpu(y, 2);
  }
  // The sum over the batch is one, or left to our own kernel.
  EXPECT_FALSE(is_taken(conv2d_backward_filter(dy, x, w, options)));
  // Parts would begin within 64 bytes; one image is too large.
  EXPECT_FALSE(is_taken(conv2d(tensor({2, 2952, 1502, 1}), tensor({3, 3, 1, 3}), options)));
  EXPECT_FALSE(is_taken(conv2d(tensor({1, 5902, 1502, 1}), w, options)));
}

TEST_F(CudaLibraries, WhatIsNotConvolvedInBf16IsWidened) {
  const Value x = tensor({1, 5, 5, 3}, Dtype::bf16), w = tensor({3, 3, 3, 5}, Dtype::bf16), y = conv2d(x, w),
              dy = tensor({1, 5, 5, 5}, Dtype::bf16), dx = conv2d_backward_input(dy, w, x, {}),
              dw = conv2d_backward_filter(dy, x, w, {});
  kernels_ = KernelRegistry(cpu_bf16_conversions());
  add_library_kernels(kernels_);
  for (Value each : {y, dx, dw}) {
    EXPECT_EQ(make(each)->implementation(), "cudnn algorithm 1");
    use({.convolves_bf16 = false});
    EXPECT_EQ(make(each)->implementation(), "f32 for bf16: cudnn algorithm 1");
    expect_as_on_the_cpu(each);
    use({});
  }
}

TEST_F(CudaLibraries, AFailureOfTheMomentChoosesNoOtherKernel) {
  use({.cublas_status = CUBLAS_STATUS_ALLOC_FAILED,
       .cudnn_status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED});
  EXPECT_THROW((void)make(matmul(tensor({2, 3}), tensor({3, 4}))), DeviceError);
  EXPECT_THROW((void)make(conv2d(tensor({1, 5, 5, 2}), tensor({3, 3, 2, 4}))), DeviceError);
}

TEST_F(CudaLibraries, RoundToTf32OnlyWhereThatIsAllowed) {
  // Which algorithm runs is checked by the fake libraries.
  fake_libraries().allow_tf32 = true;
  expect_as_on_the_cpu(matmul(tensor({2, 3}), tensor({3, 4})));
  expect_conv2d({1, 5, 5, 2}, {3, 3, 2, 4}, {});
  // Which says nothing of bf16.
  expect_conv2d({1, 5, 5, 2}, {3, 3, 2, 4}, {}, Dtype::bf16);
}

}  // namespace
}  // namespace sectionflow
