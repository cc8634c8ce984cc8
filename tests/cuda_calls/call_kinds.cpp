// What counts as an allocation, a wait or a pageable copy, on machines without a GPU, too.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/cuda_calls.h"

namespace sectionflow::testing_support {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CudaCallKinds, AreToldByTheFunctionsNameInEveryVersion) {
  for (const char* name :
       {"cudaMalloc", "cudaMalloc_v3020", "cudaMallocAsync_ptsz_v11020", "cudaHostAlloc_v3020", "cudaHostRegister",
        "cudaMallocHost", "cuMemAlloc_v2", "cuMemAllocFromPoolAsync_ptsz", "cu64MemAlloc", "cuMemHostRegister_v2",
        "cuMemCreate", "cuMemMap", "cuMemAddressReserve", "cuArrayCreate_v2", "cuGraphAddMemAllocNode"}) {
    EXPECT_EQ(kind_of_cuda_call(name), CudaCallKind::allocation) << name;
  }
  for (const char* name : {"cudaFree", "cudaFreeHost_v3020", "cudaFreeAsync_ptsz_v11020", "cuMemFree_v2", "cuMemUnmap",
                           "cudaHostUnregister", "cuMemHostUnregister", "cuMemRelease", "cuModuleUnload",
                           "cudaStreamDestroy", "cudaGraphExecDestroy", "cuEventDestroy_v2", "cudaMemPoolTrimTo"}) {
    EXPECT_EQ(kind_of_cuda_call(name), CudaCallKind::release) << name;
  }
  for (const char* name : {"cudaStreamCreateWithFlags", "cudaEventCreate", "cuEventCreate", "cudaGraphInstantiate",
                           "cuGraphInstantiateWithParams_ptsz", "cuModuleLoadDataEx", "cuModuleLoadFatBinary",
                           "cuLibraryLoadData", "cuFuncLoad", "cuModuleLoad", "cuCtxCreate_v4"}) {
    EXPECT_EQ(kind_of_cuda_call(name), CudaCallKind::making) << name;
  }
}

TEST(CudaCallKinds, TellWaitsFromWhatIsAsynchronous) {
  EXPECT_EQ(kind_of_cuda_call("cudaStreamSynchronize_ptsz_v7000"), CudaCallKind::wait_for_stream);
  EXPECT_EQ(kind_of_cuda_call("cuStreamSynchronize"), CudaCallKind::wait_for_stream);
  EXPECT_EQ(kind_of_cuda_call("cudaEventSynchronize_v3020"), CudaCallKind::wait_for_event);
  for (const char* name : {"cudaDeviceSynchronize", "cudaThreadSynchronize", "cuCtxSynchronize_v2"}) {
    EXPECT_EQ(kind_of_cuda_call(name), CudaCallKind::wait_for_all) << name;
  }
  for (const char* name : {"cudaMemcpy", "cudaMemcpy_ptds_v7000", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2_ptds",
                           "cudaMemcpy2D", "cudaMemset", "cuMemsetD8_v2"}) {
    EXPECT_EQ(kind_of_cuda_call(name), CudaCallKind::blocking_copy) << name;
  }
  for (const char* name : {"cudaMemcpyAsync_ptsz_v7000",
                           "cuMemcpyHtoDAsync_v2",
                           "cudaMemcpyBatchAsync_v12080",
                           "cuMemsetD8Async",
                           "cudaGraphAddMemcpyNode",
                           "cudaLaunchKernel",
                           "cuLaunchKernelEx",
                           "cudaGraphLaunch",
                           "cudaEventRecord",
                           "cudaEventQuery",
                           "cudaStreamWaitEvent",
                           "cudaStreamIsCapturing",
                           "cudaGetLastError",
                           "cudaFuncSetAttribute",
                           "cuMemGetAllocationGranularity",
                           "cuMemGetInfo_v2",
                           "cudaSetDevice",
                           "cuCtxResetPersistingL2Cache",
                           "cuTensorMapEncodeTiled",
                           "__cudaRegisterFunction",
                           "cudaCreateChannelDesc",
                           "cudaMemGetInfo"}) {
    EXPECT_EQ(kind_of_cuda_call(name), CudaCallKind::harmless) << name;
  }
}

/// What the log says of `happens`.
template <class Happens>
std::string found(CudaCallLog& log, Happens happens) {
  log.begin();
  happens();
  return to_text(log.end());
}

TEST(CudaCallLog, CountsACallOnceAlthoughTheRuntimeCallsTheDriver) {
  CudaCallLog log;
  EXPECT_EQ(found(log,
                  [&] {
                    log.enter("cudaMalloc_v3020");
                    log.enter("cuMemAlloc_v2");
                    log.leave("cuMemAlloc_v2");
                    log.leave("cudaMalloc_v3020");
                    log.enter("cuMemAlloc_v2");
                    log.leave("cuMemAlloc_v2");
                  }),
            "cudaMalloc, cuMemAlloc");
}

TEST(CudaCallLog, SeesWhatAHarmlessCallHides) {
  CudaCallLog log;
  EXPECT_EQ(found(log,
                  [&] {
                    log.enter("cudaGraphLaunch");
                    log.enter("cuMemAlloc_v2");
                    log.leave("cuMemAlloc_v2");
                    log.waited();
                    log.leave("cudaGraphLaunch");
                  }),
            "cuMemAlloc, a wait inside cudaGraphLaunch");
}

TEST(CudaCallLog, AWaitIsHiddenWhereNoCallThatWaitsIsOpen) {
  CudaCallLog log;
  EXPECT_EQ(found(log,
                  [&] {
                    log.enter("cudaStreamSynchronize");
                    log.enter("cuStreamSynchronize");
                    log.waited();
                    log.leave("cuStreamSynchronize");
                    log.leave("cudaStreamSynchronize");
                    log.enter("cudaFree_v3020");
                    log.waited();
                    log.leave("cudaFree_v3020");
                    log.waited();
                  }),
            "cudaStreamSynchronize, cudaFree, a wait inside cudaFree, a wait inside no call");
}

TEST(CudaCallLog, ThreadsHaveCallsOfTheirOwn) {
  CudaCallLog log;
  EXPECT_EQ(found(log,
                  [&] {
                    log.enter("cudaStreamSynchronize");
                    std::thread([&] {
                      log.enter("cudaMallocHost");
                      log.leave("cudaMallocHost");
                      log.waited();
                    }).join();
                    log.leave("cudaStreamSynchronize");
                  }),
            "cudaStreamSynchronize, cudaMallocHost, a wait inside no call");
}

TEST(CudaCallLog, CopiesOfPageableMemoryAreFound) {
  CudaCallLog log;
  EXPECT_EQ(found(log,
                  [&] {
                    log.copied(CopyMemory::pinned, CopyMemory::device, 100);
                    log.copied(CopyMemory::device, CopyMemory::device, 100);
                    log.copied(CopyMemory::pageable, CopyMemory::device, 1024);
                    log.copied(CopyMemory::device, CopyMemory::pageable, 12);
                  }),
            "a copy of 1.00 KiB from pageable to device memory, a copy of 12 B from device to pageable memory");
  EXPECT_EQ(log.num_copies(), 4);
}

TEST(CudaCallLog, CountsNothingOutsideItsWindow) {
  CudaCallLog log;
  log.enter("cudaMalloc");
  log.leave("cudaMalloc");
  log.copied(CopyMemory::pageable, CopyMemory::device, 1);
  // A call that begins before the window is known in it.
  log.enter("cudaStreamSynchronize");
  EXPECT_EQ(found(log, [&] { log.waited(); }), "nothing");
  log.leave("cudaStreamSynchronize");
  log.leave("cudaEventSynchronize");
  EXPECT_EQ(found(log, [&] { log.waited(); }), "a wait inside no call");
  log.begin();
  EXPECT_THAT(log.end(), IsEmpty());
}

}  // namespace
}  // namespace sectionflow::testing_support
