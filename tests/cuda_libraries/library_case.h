#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "device/cpu_device.h"
#include "device/cuda/cuda_device.h"
#include "graph/nodes/convolution.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/ops/convolution.h"
#include "graph/ops/matmul.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/library/library_kernels.h"
#include "tests/cuda_libraries/fake_libraries.h"

namespace sectionflow::testing_support {

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

class LibraryCase : public testing::Test {
 protected:
  LibraryCase() {
    fake_libraries() = {};
    add_library_kernels(kernels_);
  }

  /// Other libraries from here on, of which nothing has been chosen.
  void use(const FakeLibraries& libraries) {
    fake_libraries() = libraries;
    forget_choices();
  }
  void forget_choices() { cuda_.choices() = {}; }

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
    cuda_.set_allow_tf32(fake_libraries().allow_tf32);
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
    const std::vector<std::optional<bool>> booleans(content.size());
    const std::vector<InputUse> uses = y.node().op().input_uses(content.size(), booleans);
    for (const std::vector<float>& numbers : content) {
      void* place = buffer(numbers.size() * sizeof(float));
      if (y.dtype() == Dtype::bf16) {
        std::transform(numbers.begin(), numbers.end(), static_cast<BFloat16*>(place),
                       [](float x) { return BFloat16(x); });
      } else {
        std::memcpy(place, numbers.data(), numbers.size() * sizeof(float));
      }
      const bool is_read = uses[inputs.size()] == InputUse::data;
      inputs.push_back(is_read ? place : nullptr);
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
  void expect_as_on_the_cpu(Value y, int executions_of_a_launch = 1) {
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
      fake_libraries().workspace_bytes = workspace;
      forget_choices();
      ASSERT_TRUE(is_taken(y));
      const auto kernel = make(y);
      const int executions = fake_libraries().executions;
      EXPECT_TRUE(result(y, *kernel, content) == wanted) << kernel->implementation();
      EXPECT_EQ(fake_libraries().executions, executions + executions_of_a_launch);
      EXPECT_GE(kernel->workspace_bytes(), workspace);
    }
  }
  void expect_convolution_and_gradients(Value x, Value w, Value y,
                                        const std::function<Value(Value, Value, Value, bool)>& gradient) {
    expect_as_on_the_cpu(y);
    const Value dy = tensor(y.type().shape, y.dtype());
    expect_as_on_the_cpu(gradient(dy, x, w, false));
    expect_as_on_the_cpu(gradient(dy, x, w, true));
  }
  void expect_conv2d(const Shape& x_shape, const Shape& w_shape, const Conv2dOptions& options,
                     Dtype dtype = Dtype::f32) {
    const Value x = tensor(x_shape, dtype), w = tensor(w_shape, dtype);
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

}  // namespace sectionflow::testing_support
