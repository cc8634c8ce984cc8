#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace sectionflow::testing_support {

/// What a function of CUDA's runtime or driver does that a training cycle must not do, or does knowingly.
enum class CudaCallKind {
  harmless,         ///< launches, asynchronous copies, events, queries
  allocation,       ///< memory of the device or pinned memory of the host
  release,          ///< memory, and whatever else is given back
  making,           ///< streams, events, recordings, modules
  wait_for_stream,  ///< the calling thread waits
  wait_for_event,
  wait_for_all,   ///< for a whole device or context
  blocking_copy,  ///< copies and fills without "Async": they wait, or run on the stream that others wait for
};

/// The kind of a function by its name, of the runtime ("cudaMalloc_v3020") or the driver ("cuMemAlloc_v2").
CudaCallKind kind_of_cuda_call(std::string_view function);

/// Where one side of a copy lies.
enum class CopyMemory { pageable, pinned, device, other };

/// Something that happened while a log was open.
struct CudaFinding {
  /// A wait that is hidden is one that the driver reports while the thread is in no call that waits.
  enum class Kind { call, hidden_wait, pageable_copy } kind = Kind::call;
  CudaCallKind call = CudaCallKind::harmless;
  std::string text;  ///< the function's name as CUDA's headers write it, or what a copy moved
};
std::string to_text(const std::vector<CudaFinding>& findings);

/// Tells what is worth a word from the calls that a hook reports. A function that is called by another that is counted
/// already (cuMemAlloc by cudaMalloc) is not counted once more. Threads: any.
class CudaCallLog {
 public:
  /// From here on things are counted, until end() gives them back.
  void begin();
  std::vector<CudaFinding> end();
  /// Copies of any kind between begin() and end(): whether the hook sees copies at all.
  int num_copies() const { return num_copies_; }

  /// The calling thread goes into a function of CUDA and comes out of it. Said at all times.
  void enter(const char* function);
  void leave(const char* function);
  /// The calling thread has waited for a stream or a context.
  void waited();
  void copied(CopyMemory from, CopyMemory to, std::size_t bytes);

 private:
  struct OpenCall {
    std::string function;
    CudaCallKind kind;
  };

  std::mutex mutex_;
  bool open_ = false;
  int num_copies_ = 0;
  std::map<std::thread::id, std::vector<OpenCall>> calls_;  // of each thread, the outermost first
  std::vector<CudaFinding> findings_;
};

}  // namespace sectionflow::testing_support
