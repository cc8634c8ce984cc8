#include "tests/cuda_calls/cupti_hook.h"

#include <stdexcept>
#include <string>

#if defined(SF_HAS_CUPTI)
#include <cupti.h>

#include <atomic>
#include <cstdlib>
#endif

namespace sectionflow::testing_support {

#if defined(SF_HAS_CUPTI)
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 18;
constexpr CUpti_CallbackDomain kDomains[] = {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API,
                                             CUPTI_CB_DOMAIN_SYNCHRONIZE};

// Buffers of records have no user data: they go to the one log there is.
std::atomic<CudaCallLog*> log_of_copies{nullptr};

void check_cupti(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return;
  const char* why = "unknown error";
  (void)cuptiGetResultString(result, &why);
  throw std::runtime_error(std::string("CUPTI: ") + call + ": " + why);
}

void CUPTIAPI note_call(void* log, CUpti_CallbackDomain domain, CUpti_CallbackId, const void* data) {
  auto& calls = *static_cast<CudaCallLog*>(log);
  if (domain == CUPTI_CB_DOMAIN_SYNCHRONIZE) return calls.waited();
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (call.callbackSite == CUPTI_API_ENTER) {
    calls.enter(call.functionName);
  } else {
    calls.leave(call.functionName);
  }
}

CopyMemory memory_of(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE:
      return CopyMemory::pageable;
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED:
      return CopyMemory::pinned;
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE:
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC:
      return CopyMemory::device;
    default:
      return CopyMemory::other;
  }
}

/// The beginning of a copy's record: every version of CUPTI's own struct begins so, and has another end.
struct CopyRecord {
  CUpti_ActivityKind kind;
  std::uint8_t copy_kind, from, to, flags;
  std::uint64_t bytes;
};

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // as many as it holds
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
  CUpti_Activity* record = nullptr;
  CudaCallLog* const log = log_of_copies.load();
  while (valid_bytes > 0 && cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    if (log == nullptr || record->kind != CUPTI_ACTIVITY_KIND_MEMCPY) continue;
    const auto& copy = *reinterpret_cast<const CopyRecord*>(record);
    log->copied(memory_of(copy.from), memory_of(copy.to), copy.bytes);
  }
  std::free(buffer);
}

void flush_copies() {
  check_cupti(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
}

}  // namespace

bool has_cupti() {
  return true;
}

struct CuptiHook::Subscription {
  explicit Subscription(CudaCallLog& log) {
    check_cupti(cuptiSubscribe(&subscriber, note_call, &log), "cuptiSubscribe");
    try {
      log_of_copies = &log;
      check_cupti(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks");
      // Of each copy the GPU carries out, those in recordings included, where both sides lie.
      check_cupti(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY), "cuptiActivityEnable");
      for (CUpti_CallbackDomain domain : kDomains) {
        check_cupti(cuptiEnableDomain(1, subscriber, domain), "cuptiEnableDomain");
      }
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Subscription() { stop(); }
  void stop() const noexcept {
    for (CUpti_CallbackDomain domain : kDomains) (void)cuptiEnableDomain(0, subscriber, domain);
    (void)cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMCPY);
    (void)cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    (void)cuptiUnsubscribe(subscriber);
    log_of_copies = nullptr;
  }

  CUpti_SubscriberHandle subscriber = nullptr;
};

void CuptiHook::begin() {
  flush_copies();  // those from before are nobody's
  log_.begin();
}

std::vector<CudaFinding> CuptiHook::end() {
  flush_copies();
  return log_.end();
}
#else
bool has_cupti() {
  return false;
}

struct CuptiHook::Subscription {
  explicit Subscription(CudaCallLog&) { throw std::runtime_error("this program was built without CUPTI"); }
};

void CuptiHook::begin() {
  log_.begin();
}

std::vector<CudaFinding> CuptiHook::end() {
  return log_.end();
}
#endif

CuptiHook::CuptiHook() : subscription_(std::make_unique<Subscription>(log_)) {}
CuptiHook::~CuptiHook() = default;

}  // namespace sectionflow::testing_support
