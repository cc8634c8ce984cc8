#include "kernels/cpu/onednn_call.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

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

/// Where the stack of the test's own thread lies; handlers on any other are counted as astray.
thread_local std::uintptr_t stack_begin = 0, stack_end = 0;
std::atomic<int> num_handled{0}, num_astray{0};

void find_stack() {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  void* begin = nullptr;
  std::size_t size = 0;
  pthread_attr_getstack(&attributes, &begin, &size);
  pthread_attr_destroy(&attributes);
  stack_begin = reinterpret_cast<std::uintptr_t>(begin);
  stack_end = stack_begin + size;
}

void note_place(int) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  ++num_handled;
  if (here < stack_begin || here >= stack_end) ++num_astray;
}

/// Sends the process one signal after the other while it lives.
class Signals {
 public:
  Signals() {
    struct sigaction noting {};
    noting.sa_handler = note_place;
    noting.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &noting, &before_);
    thread_ = std::thread([this] {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, nullptr);
      while (!ends_) {
        kill(getpid(), SIGUSR1);
        usleep(20);
      }
    });
  }
  ~Signals() {
    ends_ = true;
    thread_.join();
    sigaction(SIGUSR1, &before_, nullptr);
  }

 private:
  struct sigaction before_ {};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

// Up to 3.11.1 gemm's stack pointer points into the heap where there are more than some hundred terms of a sum.
TEST(OneDnnCall, HandlersOfSignalsRunOnTheStackOfTheProgramsThread) {
  constexpr std::int64_t kRows = 4, kInner = 1024, kColumns = 196;
  for (const int threads : {1, 2}) {
    CpuDevice device(threads);
    const auto inside = device.enter();
    const memory::desc a({kRows, kInner}, memory::data_type::f32, memory::format_tag::ab);
    const memory::desc b({kInner, kColumns}, memory::data_type::f32, memory::format_tag::ba);
    const memory::desc y({kRows, kColumns}, memory::data_type::f32, memory::format_tag::ab);
    const auto description = describe_matmul(device.onednn(), a, b, y);
    OneDnnCall call(device.onednn(), description, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}});
    const std::vector<float> left(kRows * kInner, 0.5F), right(kInner * kColumns, 0.25F);
    std::vector<float> product(kRows * kColumns);
    std::vector<std::byte> scratchpad(call.scratchpad_bytes() + 1);
    find_stack();
    num_handled = num_astray = 0;
    {
      const Signals signals;
      for (int i = 0; i < 1'000'000 && num_handled < 2000; ++i) {
        call.launch({left.data(), right.data(), product.data()}, scratchpad.data());
      }
    }
    EXPECT_GT(num_handled, 0);
    EXPECT_EQ(num_astray, 0) << call.implementation() << ", " << threads << " threads";
    EXPECT_EQ(product, std::vector<float>(kRows * kColumns, kInner * 0.125F));
  }
}

}  // namespace
}  // namespace sectionflow
