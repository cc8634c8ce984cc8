// The kernels of cuBLASLt and cuDNN, called as a session calls them, with the libraries played on the host.

#include "kernels/cuda/library/library_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "device/cpu_device.h"
#include "device/cuda/cuda_device.h"
#include "graph/ops/basic.h"
#include "graph/ops/conv2d.h"
#include "graph/ops/conv3d.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/matmul.h"
#include "kernels/cuda/launch.h"
#include "tests/cuda_libraries/played_libraries.h"
#include "tests/support/gpu_blocks.h"

namespace sectionflow {
namespace {

using testing_support::played_libraries;

/// A queue whose work is done at once.
class DirectQueue final : public gpu::HostQueue {
 public:
  void enqueue_each(std::int64_t count, std::function<void(std::int64_t)> body) override {
    for (std::int64_t i = 0; i < count; ++i) body(i);
  }
  void enqueue_blocks(const gpu::LaunchShape& shape, std::function<void(gpu::HostThread&)> body) override {
    testing_support::play_blocks(shape, body, 5);
  }
  void enqueue_host(std::function<void()> work) override { work(); }
  void enqueue_copy(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void enqueue_fill(void* to, int byte, std::size_t bytes) override { std::memset(to, byte, bytes); }
};

/// Bytes as buffers lie, full of garbage.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : memory_(bytes + kBufferAlignment, 0xFF) {}
  void* data() {
    const auto start = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (round_up(start) - start);
  }

 private:
  std::vector<unsigned char> memory_;
};

class CudaLibraries : public testing::Test {
 protected:
  CudaLibraries() {
    played_libraries() = {};
    add_library_kernels(kernels_);
  }

  Value tensor(const Shape& shape, Dtype dtype = Dtype::f32) {
    return placeholder(graph_, text_of("x", num_tensors_++), shape, dtype);
  }

  KernelRequest request(Value y, Device& device) {
    std::vector<TensorType> inputs;
    for (const Value& input : y.node().inputs()) inputs.push_back(input.type());
    return {.node = y.node(),
            .inputs = inputs,
            .outputs = y.node().output_types(),
            .host_booleans = std::vector<std::optional<bool>>(inputs.size()),
            .device = device};
  }
  std::unique_ptr<Kernel> make(Value y) {
    cuda_.set_allow_tf32(played_libraries().allow_tf32);
    return kernels_.make(request(y, cuda_));
  }
  bool is_taken(Value y) {
    try {
      return make(y) != nullptr;
    } catch (const ArgumentError&) {
      return false;
    }
  }

  std::string result(Value y, Kernel& kernel, const std::vector<std::vector<float>>& content) {
    std::vector<std::unique_ptr<Buffer>> buffers;
    const auto buffer = [&](std::size_t bytes) {
      buffers.push_back(std::make_unique<Buffer>(bytes));
      return buffers.back()->data();
    };
    std::vector<const void*> inputs;
    for (const std::vector<float>& numbers : content) {
      void* place = buffer(numbers.size() * sizeof(float));
      if (y.dtype() == Dtype::bf16) {
        std::transform(numbers.begin(), numbers.end(), static_cast<BFloat16*>(place),
                       [](float x) { return BFloat16(x); });
      } else {
        std::memcpy(place, numbers.data(), numbers.size() * sizeof(float));
      }
      // The third input of gradients is there for its shape.
      inputs.push_back(inputs.size() == 2 ? nullptr : place);
    }
    const std::size_t bytes = y.node().output_types()[0].bytes();
    std::array<void*, 1> outputs = {buffer(bytes)};
    kernel.launch({.inputs = inputs,
                   .outputs = outputs,
                   .updated = {},
                   .workspace = buffer(kernel.workspace_bytes()),
                   .random = {},
                   .queue = static_cast<gpu::HostQueue*>(&queue_)});
    return {static_cast<const char*>(outputs[0]), bytes};
  }

  /// Small integers: sums of their products are exact in any order.
  void expect_as_on_the_cpu(Value y) {
    SCOPED_TRACE(y.node().label());
    std::mt19937 random(1);
    std::vector<std::vector<float>> content;
    for (const Value& input : y.node().inputs()) {
      std::vector<float> numbers(static_cast<std::size_t>(input.type().shape.num_elements()));
      for (float& number : numbers) number = static_cast<float>(random() % 7) - 3;
      content.push_back(numbers);
    }
    const auto on_cpu = kernel_registry(DeviceKind::cpu).make(request(y, cpu_));
    const std::string wanted = result(y, *on_cpu, content);
    for (std::size_t workspace : {0, 1000}) {
      played_libraries().workspace_bytes = workspace;
      ASSERT_TRUE(is_taken(y));
      const auto kernel = make(y);
      const int executions = played_libraries().executions;
      EXPECT_TRUE(result(y, *kernel, content) == wanted) << kernel->implementation();
      EXPECT_EQ(played_libraries().executions, executions + 1);
      EXPECT_GE(kernel->workspace_bytes(), workspace);
    }
  }
  void expect_convolution_and_gradients(Value x, Value w, Value y,
                                        const std::function<Value(Value, Value, Value, bool)>& gradient) {
    expect_as_on_the_cpu(y);
    const Value dy = tensor(y.type().shape);
    expect_as_on_the_cpu(gradient(dy, x, w, false));
    expect_as_on_the_cpu(gradient(dy, x, w, true));
  }
  void expect_conv2d(const Shape& x_shape, const Shape& w_shape, const Conv2dOptions& options) {
    const Value x = tensor(x_shape), w = tensor(w_shape);
    expect_convolution_and_gradients(x, w, conv2d(x, w, options), [&](Value dy, Value x, Value w, bool of_filter) {
      return of_filter ? conv2d_backward_filter(dy, x, w, options) : conv2d_backward_input(dy, w, x, options);
    });
  }

  Graph graph_;
  int num_tensors_ = 0;
  CpuDevice cpu_{1};
  CudaDevice cuda_;
  DirectQueue queue_;
  KernelRegistry kernels_;
};

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
    played_libraries().allow_tf32 = allow_tf32;
    expect_as_on_the_cpu(matmul(tensor({5, 70}, Dtype::bf16), tensor({70, 4}, Dtype::bf16)));
    expect_as_on_the_cpu(
        matmul(tensor({2, 3, 5, 7}, Dtype::bf16), tensor({2, 3, 4, 7}, Dtype::bf16), {.transpose_b = true}));
    expect_as_on_the_cpu(matmul_over_rows(tensor({3, 4, 5}, Dtype::bf16), tensor({3, 4, 6}, Dtype::bf16)));
    expect_as_on_the_cpu(conv2d(tensor({2, 4, 4, 5}, Dtype::bf16), tensor({1, 1, 5, 6}, Dtype::bf16)));
  }
  // Other convolutions of bf16 are left to those of f32.
  EXPECT_FALSE(is_taken(conv2d(tensor({2, 4, 4, 5}, Dtype::bf16), tensor({3, 3, 5, 6}, Dtype::bf16))));
}

TEST_F(CudaLibraries, ConvolveImagesAsTheCpuDoes) {
  struct Case {
    std::int64_t height, width, channels;
    Shape w;
    Conv2dOptions options{};
  };
  for (const Case& c :
       {Case{5, 6, 4, {3, 3, 4, 5}}, Case{7, 9, 4, {3, 3, 4, 6}, {.stride = {2, 2}}},
        Case{7, 9, 4, {3, 2, 2, 6}, {{2, 1}, Padding(2, 1), {1, 2}, 2}}, Case{5, 5, 4, {3, 3, 1, 8}, {.groups = 4}},
        Case{4, 4, 5, {1, 1, 5, 6}}, Case{5, 5, 3, {1, 1, 3, 4}, {.stride = {2, 2}}},
        Case{5, 5, 1, {1, 1, 1, 1}, {.stride = {2, 2}}}}) {
    Conv2dOptions options = c.options;
    expect_conv2d({2, c.height, c.width, c.channels}, c.w, options);
    options.format = DataFormat::nchw;
    expect_conv2d({2, c.channels, c.height, c.width}, c.w, options);
  }
}

TEST_F(CudaLibraries, ConvolveVolumesAsTheCpuDoes) {
  for (DataFormat format : {DataFormat::nhwc, DataFormat::nchw}) {
    const Conv3dOptions options{.stride = {1, 2, 1}, .padding = Padding3d(1, 1, 0), .groups = 2, .format = format};
    const Value x = tensor(format == DataFormat::nhwc ? Shape{2, 4, 5, 6, 4} : Shape{2, 4, 4, 5, 6}),
                w = tensor({2, 3, 2, 2, 6});
    expect_convolution_and_gradients(x, w, conv3d(x, w, options), [&](Value dy, Value x, Value w, bool of_filter) {
      return of_filter ? conv3d_backward_filter(dy, x, w, options) : conv3d_backward_input(dy, w, x, options);
    });
  }
}

TEST_F(CudaLibraries, TransposeConvolutionsAsTheCpuDoes) {
  for (DataFormat format : {DataFormat::nhwc, DataFormat::nchw}) {
    const bool last = format == DataFormat::nhwc;
    expect_as_on_the_cpu(conv_transpose2d(
        tensor(last ? Shape{2, 4, 5, 6} : Shape{2, 6, 4, 5}), tensor({3, 3, 2, 6}),
        {.stride = {2, 2}, .padding = Padding(1, 1), .output_padding = {1, 0}, .groups = 2, .format = format}));
    expect_as_on_the_cpu(conv_transpose2d(tensor(last ? Shape{2, 4, 5, 6} : Shape{2, 6, 4, 5}), tensor({1, 1, 2, 6}),
                                          {.format = format}));
    expect_as_on_the_cpu(conv_transpose3d(tensor(last ? Shape{1, 3, 4, 5, 6} : Shape{1, 6, 3, 4, 5}),
                                          tensor({3, 2, 1, 2, 6}),
                                          {.stride = {2, 1, 1}, .padding = Padding3d(1, 0, 0), .format = format}));
  }
}

TEST_F(CudaLibraries, LeaveWhatTheyCannotPromise) {
  const Value product = matmul(tensor({2, 3}), tensor({3, 4})),
              convolution = conv2d(tensor({1, 5, 5, 2}), tensor({3, 3, 2, 4}));
  EXPECT_TRUE(is_taken(product) && is_taken(convolution));
  // Nothing to multiply; a zero more behind the image than before it.
  EXPECT_FALSE(is_taken(matmul(tensor({2, 0}), tensor({0, 4}))));
  EXPECT_FALSE(is_taken(conv2d(tensor({1, 6, 6, 2}), tensor({3, 3, 2, 4}), {.stride = {2, 2}})));
  // More scratch than a kernel may ask for.
  played_libraries().workspace_bytes = (std::size_t{32} << 20) + 1;
  EXPECT_FALSE(is_taken(product) || is_taken(convolution));
  played_libraries() = {.has_sound_algorithms = false};
  EXPECT_FALSE(is_taken(product) || is_taken(convolution));
  played_libraries() = {.cublas_status = CUBLAS_STATUS_NOT_SUPPORTED, .cudnn_status = CUDNN_STATUS_NOT_SUPPORTED};
  EXPECT_FALSE(is_taken(product) || is_taken(convolution));
}

TEST_F(CudaLibraries, AFailureOfTheMomentChoosesNoOtherKernel) {
  played_libraries() = {.cublas_status = CUBLAS_STATUS_ALLOC_FAILED,
                        .cudnn_status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED};
  EXPECT_THROW((void)make(matmul(tensor({2, 3}), tensor({3, 4}))), DeviceError);
  EXPECT_THROW((void)make(conv2d(tensor({1, 5, 5, 2}), tensor({3, 3, 2, 4}))), DeviceError);
}

TEST_F(CudaLibraries, RoundToTf32OnlyWhereThatIsAllowed) {
  // Which algorithm runs is checked where it is played.
  played_libraries().allow_tf32 = true;
  expect_as_on_the_cpu(matmul(tensor({2, 3}), tensor({3, 4})));
  expect_conv2d({1, 5, 5, 2}, {3, 3, 2, 4}, {});
}

}  // namespace
}  // namespace sectionflow
