#include "kernels/cpu/onednn_call.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/cpu_device.h"

namespace sectionflow {
namespace {

using dnnl::memory;

/// A matmul whose implementation needs a scratchpad, with its layouts.
OneDnnCall transposed_matmul(CpuDevice& device) {
  const memory::desc a({300, 300}, memory::data_type::f32, memory::format_tag::ba);
  const memory::desc y({300, 300}, memory::data_type::f32, memory::format_tag::ab);
  const auto description = describe_matmul(device.onednn(), a, a, y);
  return {device.onednn(), description, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, a}, {DNNL_ARG_DST, y}}};
}

TEST(OneDnnCall, MissingScratchpadIsAnErrorAndNoCrash) {
  CpuDevice device(1);
  OneDnnCall call = transposed_matmul(device);
  if (call.scratchpad_bytes() == 0) GTEST_SKIP() << call.implementation() << " needs no scratchpad here";
  std::vector<float> matrix(300 * 300);
  EXPECT_THROW(call.launch({matrix.data(), matrix.data(), matrix.data()}, nullptr), InternalError);
}

TEST(OneDnnCall, MissingPointersAreErrors) {
  CpuDevice device(1);
  OneDnnCall call = transposed_matmul(device);
  std::vector<float> matrix(300 * 300);
  std::vector<std::byte> scratchpad(call.scratchpad_bytes() + 1);
  EXPECT_THROW(call.launch({matrix.data(), nullptr, matrix.data()}, scratchpad.data()), InternalError);
  EXPECT_THROW(call.launch({matrix.data(), matrix.data()}, scratchpad.data()), InternalError);
}

}  // namespace
}  // namespace sectionflow
