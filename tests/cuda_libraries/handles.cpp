// The handles of cuBLASLt and cuDNN, which all sessions of a process share.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "tests/cuda_libraries/library_case.h"

namespace sectionflow {
namespace {

using testing_support::cudnn_stream;
using testing_support::num_cublas_handles;
using testing_support::num_cudnn_handles;

class LibraryHandlesOfAProcess : public testing_support::LibraryCase {
 protected:
  Value convolution_ = conv2d(tensor({1, 5, 5, 2}), tensor({3, 3, 2, 1}));  // nothing is transposed
};

TEST_F(LibraryHandlesOfAProcess, AreOneForEachGpuHoweverManySessionsThereAre) {
  const CudaDevice of_first_gpu(0), of_another(7);
  const int cublas = num_cublas_handles(), cudnn = num_cudnn_handles();
  for (int session = 0; session < 3; ++session) {
    CudaDevice again(0), beside(0), elsewhere(7);
    EXPECT_EQ(again.cublas(), beside.cublas());
    EXPECT_EQ(&library_handles(0), &library_handles(0));
    EXPECT_NE(&library_handles(0), &library_handles(7));
    EXPECT_EQ(num_cublas_handles(), cublas);
    EXPECT_EQ(num_cudnn_handles(), cudnn);
  }
}

TEST_F(LibraryHandlesOfAProcess, HaveEachSessionsWorkJoinItsOwnQueue) {
  const std::vector<std::vector<float>> content = {std::vector<float>(50, 1.0F), std::vector<float>(18, 1.0F)};
  auto other = std::make_unique<CudaDevice>();
  const auto first = make(convolution_), second = kernels_.make(request(convolution_, *other));
  for (int round = 0; round < 2; ++round) {
    (void)result(convolution_, *first, content);
    EXPECT_EQ(cudnn_stream(), cuda_.native(Queue::compute));
    (void)result(convolution_, *second, content);
    EXPECT_EQ(cudnn_stream(), other->native(Queue::compute));
  }
  // Another stream may lie where one has ended.
  other.reset();
  EXPECT_EQ(cudnn_stream(), nullptr);
  (void)result(convolution_, *first, content);
  EXPECT_EQ(cudnn_stream(), cuda_.native(Queue::compute));
}

TEST_F(LibraryHandlesOfAProcess, AreUsedByOneThreadAtATime) {
  // The fakes fail the test where a second call, or another stream, comes in between.
  const std::vector<std::vector<float>> content = {std::vector<float>(50, 1.0F), std::vector<float>(18, 1.0F)};
  std::array<CudaDevice, 2> devices;
  std::array<std::unique_ptr<Kernel>, 2> kernels;
  for (std::size_t i = 0; i < devices.size(); ++i) kernels[i] = kernels_.make(request(convolution_, devices[i]));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) (void)result(convolution_, *kernels[i], content);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sectionflow
