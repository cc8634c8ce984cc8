#include "train/stop_signals.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <mutex>

#include "base/error.h"

namespace sectionflow {
namespace {

constexpr std::array<int, 2> kStopSignals = {SIGINT, SIGTERM};
constexpr std::int64_t kSameSignalNanoseconds = 50'000'000;

// What the handler touches: lock-free, so that it may.
std::atomic<int> first_signal{0};
std::atomic<std::int64_t> first_signal_at{0};  // 0: there was none
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

std::mutex mutex;  // guards what follows
int num_watching = 0;
std::array<struct sigaction, kStopSignals.size()> before;

std::int64_t now_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// Calls nothing but what POSIX allows in a handler.
void note_signal(int signal) {
  const int error_number = errno;
  const std::int64_t now = now_nanoseconds();
  std::int64_t never = 0;
  if (first_signal_at.compare_exchange_strong(never, now)) {
    first_signal.store(signal);
  } else if (now - never > kSameSignalNanoseconds) {
    // It is blocked while its handler runs, and takes effect when this returns.
    struct sigaction by_default {};
    by_default.sa_handler = SIG_DFL;
    sigaction(signal, &by_default, nullptr);
    raise(signal);
  }
  errno = error_number;
}

void put_back(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sigaction(kStopSignals[i], &before[i], nullptr);
}

void install() {
  first_signal = 0;
  first_signal_at = 0;
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    struct sigaction noting {};
    noting.sa_handler = note_signal;
    // Calls of the system that are under way, as those of the swap file, go on.
    noting.sa_flags = SA_RESTART;
    sigemptyset(&noting.sa_mask);
    const bool is_known = sigaction(kStopSignals[i], nullptr, &before[i]) == 0;
    const bool is_ignored = is_known && before[i].sa_handler == SIG_IGN;
    if (is_known && (is_ignored || sigaction(kStopSignals[i], &noting, nullptr) == 0)) continue;
    const int error_number = errno;
    put_back(i);
    throw DeviceError(text_of("signal ", kStopSignals[i], " cannot be handled: ", std::strerror(error_number)));
  }
}

}  // namespace

StopSignals::StopSignals() {
  const std::lock_guard lock(mutex);
  if (num_watching == 0) install();
  ++num_watching;
}

StopSignals::~StopSignals() {
  const std::lock_guard lock(mutex);
  if (--num_watching == 0) put_back(kStopSignals.size());
}

int StopSignals::received() const {
  return first_signal.load();
}

std::string name_of_signal(int signal) {
  return signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : text_of("signal ", signal);
}

}  // namespace sectionflow
