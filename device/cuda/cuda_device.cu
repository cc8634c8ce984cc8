#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/own_kernels.h"
#include "device/mapped_memory.h"

namespace sectionflow {
namespace {

using gpu::check_cuda;

/// Of free device memory nobody is promised this much: cuBLASLt and cuDNN load the code of a kernel when it is first
/// used, and recordings take some.
std::size_t margin(std::size_t total_bytes) {
  return std::max(512_MiB, total_bytes / 25);
}

class CudaEvent final : public DeviceEvent {
 public:
  CudaEvent() { check_cuda(cudaEventCreate(&event), "cudaEventCreate"); }
  ~CudaEvent() override { (void)cudaEventDestroy(event); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  cudaEvent_t event = nullptr;
};

cudaEvent_t event_of(DeviceEvent& event) {
  return static_cast<CudaEvent&>(event).event;
}

class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(cudaGraph_t recorded, std::vector<CudaDevice::FeedCopy> copies)
      : feeds(std::move(copies)), recorded_(recorded) {
    const cudaError_t status = cudaGraphInstantiate(&executable, recorded, 0);
    // Its nodes name the copies that are to be changed.
    if (status != cudaSuccess || feeds.empty()) destroy_recorded();
    check_cuda(status, "cudaGraphInstantiate");
  }
  ~CudaGraph() override {
    (void)cudaGraphExecDestroy(executable);
    destroy_recorded();
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  cudaGraphExec_t executable = nullptr;
  std::vector<CudaDevice::FeedCopy> feeds;

 private:
  void destroy_recorded() {
    if (recorded_ != nullptr) (void)cudaGraphDestroy(std::exchange(recorded_, nullptr));
  }
  cudaGraph_t recorded_;
};

/// The work that a stream has been given last, while it is recorded.
cudaGraphNode_t last_recorded(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* last = nullptr;
  std::size_t count = 0;
#if CUDART_VERSION >= 13000
  check_cuda(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &last, nullptr, &count),
             "cudaStreamGetCaptureInfo");
#else
  check_cuda(cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, nullptr, &last, &count), "cudaStreamGetCaptureInfo");
#endif
  SF_CHECK(status == cudaStreamCaptureStatusActive && count == 1, DeviceError, "cuda: a recorded copy is ", count,
           " pieces of work; wanted one");
  return last[0];
}

}  // namespace

CudaDevice::CudaDevice(int ordinal) : ordinal_(ordinal) {
  try {
    make_handles();
  } catch (...) {
    free_all();
    throw;
  }
}

CudaDevice::~CudaDevice() {
  free_all();
}

void CudaDevice::make_handles() {
  select();
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, ordinal_), "cudaGetDeviceProperties");
  name_ = text_of("cuda:", ordinal_, " (", properties.name, ")");
  const std::string gpu = text_of(properties.name, " of compute capability ", properties.major, ".", properties.minor,
                                  " with ", properties.multiProcessorCount, " multiprocessors: ");
  cublas_problem_ = text_of("cublaslt ", cublasLtGetVersion(), " on ", gpu);
#if defined(SF_HAS_CUDNN)
  cudnn_problem_ = text_of("cudnn ", cudnnGetVersion(), " on ", gpu);
#endif
  for (cudaStream_t& stream : streams_) {
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  check_cuda(cudaMalloc(&random_state_, sizeof(RandomState)), "cudaMalloc");
  check_cuda(cudaMallocHost(&new_state_, sizeof(RandomState)), "cudaMallocHost");
  libraries_ = &library_handles(ordinal_);
  gpu::load_own_kernels();
  check_cuda(cudaDeviceSynchronize(), "start of the device");
  std::size_t total = 0;
  check_cuda(cudaMemGetInfo(&free_bytes_, &total), "cudaMemGetInfo");
  free_bytes_ -= std::min(free_bytes_, margin(total));
}

void CudaDevice::free_all() noexcept {
  (void)cudaSetDevice(ordinal_);
  if (libraries_ != nullptr) libraries_->forget(stream(Queue::compute));
  (void)cudaFreeHost(new_state_);
  (void)cudaFree(random_state_);
  for (cudaStream_t stream : streams_) {
    if (stream != nullptr) (void)cudaStreamDestroy(stream);
  }
}

void CudaDevice::select() const {
  check_cuda(cudaSetDevice(ordinal_), "cudaSetDevice");
}

bool CudaDevice::has_problem(const std::string& problem) const {
  return problem.starts_with(cublas_problem_) || (!cudnn_problem_.empty() && problem.starts_with(cudnn_problem_));
}

std::size_t CudaDevice::context_bytes() const {
  select();
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return total - free - std::min(total - free, allocated_cuda_bytes(ordinal_));
}

std::unique_ptr<void, void (*)(void*)> CudaDevice::enter() {
  select();
  return {nullptr, [](void*) {}};
}

std::unique_ptr<DeviceMemory> CudaDevice::allocate(std::size_t num_bytes) {
  return allocate_cuda_memory(num_bytes, ordinal_);
}
std::unique_ptr<DeviceMemory> CudaDevice::allocate_host(std::size_t num_bytes) {
  select();
  return map_pinned_memory(num_bytes, {.tier = "host", .option = "host_memory"}, *this);
}

void CudaDevice::copy_from_host(void* device, const void* host, std::size_t num_bytes) {
  synchronize();
  if (num_bytes == 0) return;
  check_cuda(cudaMemcpy(device, host, num_bytes, cudaMemcpyHostToDevice), "copy to the device");
  // From pageable memory the call may return before the last bytes have arrived.
  check_cuda(cudaDeviceSynchronize(), "copy to the device");
}
void CudaDevice::copy_to_host(void* host, const void* device, std::size_t num_bytes) {
  synchronize();
  if (num_bytes == 0) return;
  check_cuda(cudaMemcpy(host, device, num_bytes, cudaMemcpyDeviceToHost), "copy from the device");
}

void CudaDevice::set_random_state(const RandomState& state) {
  select();
  *new_state_ = state;
  check_cuda(cudaMemcpyAsync(random_state_, new_state_, sizeof(state), cudaMemcpyHostToDevice, stream(Queue::compute)),
             "copy of the random state");
}

std::unique_ptr<DeviceEvent> CudaDevice::make_event() {
  select();
  return std::make_unique<CudaEvent>();
}
void CudaDevice::record(DeviceEvent& event, Queue queue) {
  select();
  check_cuda(cudaEventRecord(event_of(event), stream(queue)), "cudaEventRecord");
}
void CudaDevice::record_for_all(DeviceEvent& event, Queue queue) {
  if (!is_recording_) return record(event, queue);
  select();
  check_cuda(cudaEventRecordWithFlags(event_of(event), stream(queue), cudaEventRecordExternal),
             "cudaEventRecordWithFlags");
}
void CudaDevice::wait(Queue queue, DeviceEvent& event) {
  select();
  check_cuda(cudaStreamWaitEvent(stream(queue), event_of(event), 0), "cudaStreamWaitEvent");
}
void CudaDevice::synchronize(DeviceEvent& event) {
  select();
  check_cuda(cudaEventSynchronize(event_of(event)), "work of the device");
}
void CudaDevice::synchronize() {
  select();
  for (cudaStream_t stream : streams_) check_cuda(cudaStreamSynchronize(stream), "work of the device");
}
double CudaDevice::seconds_between(DeviceEvent& from, DeviceEvent& to) {
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, event_of(from), event_of(to)), "cudaEventElapsedTime");
  return milliseconds * 1e-3;
}

// Work of no bytes is no work: the runtime takes such calls, recordings may not.
void CudaDevice::copy_to_host(Queue queue, void* host, const void* device, std::size_t num_bytes) {
  if (num_bytes == 0) return;
  select();
  check_cuda(cudaMemcpyAsync(host, device, num_bytes, cudaMemcpyDeviceToHost, stream(queue)), "copy from the device");
}
void CudaDevice::copy_from_host(Queue queue, void* device, const void* host, std::size_t num_bytes) {
  if (num_bytes == 0) return;
  select();
  check_cuda(cudaMemcpyAsync(device, host, num_bytes, cudaMemcpyHostToDevice, stream(queue)), "copy to the device");
}
void CudaDevice::copy(Queue queue, void* to, const void* from, std::size_t num_bytes) {
  if (num_bytes == 0) return;
  select();
  check_cuda(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDeviceToDevice, stream(queue)), "copy on the device");
}
void CudaDevice::copy_feed(int feed, void* device, const void* host, std::size_t num_bytes) {
  copy_from_host(Queue::compute, device, host, num_bytes);
  if (!is_recording_ || num_bytes == 0) return;
  recorded_feeds_.push_back(
      {feed, last_recorded(stream(Queue::compute)), device, host, num_bytes, num_unpinned_.load()});
}
void CudaDevice::fill(Queue queue, void* device, int byte, std::size_t num_bytes) {
  if (num_bytes == 0) return;
  select();
  check_cuda(cudaMemsetAsync(device, byte, num_bytes, stream(queue)), "fill");
}

void CudaDevice::pin(void* host, std::size_t num_bytes) {
  select();
  const cudaError_t status = cudaHostRegister(host, num_bytes, cudaHostRegisterPortable);
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  throw DeviceError(text_of("host: ", bytes_text(num_bytes), " of memory could not be pinned: ",
                            cudaGetErrorString(status), "; try a smaller host_memory"));
}
void CudaDevice::unpin(void* host) noexcept {
  (void)cudaSetDevice(ordinal_);  // who ends a session may be another thread
  ++num_unpinned_;
  if (cudaHostUnregister(host) != cudaSuccess) (void)cudaGetLastError();
}

void CudaDevice::begin_recording() {
  select();
  // Calls of other threads on other devices do not disturb the recording.
  check_cuda(cudaStreamBeginCapture(stream(Queue::compute), cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  is_recording_ = true;
  recorded_feeds_.clear();
}
std::unique_ptr<DeviceGraph> CudaDevice::end_recording() {
  is_recording_ = false;
  cudaGraph_t recorded = nullptr;
  check_cuda(cudaStreamEndCapture(stream(Queue::compute), &recorded), "cudaStreamEndCapture");
  return std::make_unique<CudaGraph>(recorded, std::exchange(recorded_feeds_, {}));
}
void CudaDevice::cancel_recording() noexcept {
  is_recording_ = false;
  cudaGraph_t recorded = nullptr;
  if (cudaStreamEndCapture(stream(Queue::compute), &recorded) == cudaSuccess && recorded != nullptr) {
    (void)cudaGraphDestroy(recorded);
  }
  (void)cudaGetLastError();
}
void CudaDevice::set_feeds(DeviceGraph& graph, std::span<const std::byte* const> hosts) {
  auto& recording = static_cast<CudaGraph&>(graph);
  for (FeedCopy& copy : recording.feeds) {
    const std::byte* host = hosts[static_cast<std::size_t>(copy.feed)];
    // Memory that was pinned anew may lie where other memory lay.
    const std::uint64_t num_unpinned = num_unpinned_.load();
    if (host == copy.host && num_unpinned == copy.num_unpinned) continue;
    select();
    check_cuda(cudaGraphExecMemcpyNodeSetParams1D(recording.executable, copy.node, copy.device, host, copy.num_bytes,
                                                  cudaMemcpyHostToDevice),
               "cudaGraphExecMemcpyNodeSetParams1D");
    copy.host = host;
    copy.num_unpinned = num_unpinned;
  }
}
void CudaDevice::launch(DeviceGraph& graph) {
  select();
  check_cuda(cudaGraphLaunch(static_cast<CudaGraph&>(graph).executable, stream(Queue::compute)), "cudaGraphLaunch");
}

}  // namespace sectionflow
