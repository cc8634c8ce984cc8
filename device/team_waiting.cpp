#include "device/team_waiting.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string>
#include <thread>

#include "base/held_signals.h"
#include "device/idle_team.h"

namespace sectionflow {
namespace {

#if defined(__clang__)
constexpr bool kIsLibgomp = false;
#else
constexpr bool kIsLibgomp = true;
#endif

/// A variable's text from its first letter on, in small letters.
std::string setting(const char* variable) {
  const char* text = std::getenv(variable);
  std::string found(text != nullptr ? text : "");
  found.erase(0, std::min(found.find_first_not_of(" \t"), found.size()));
  for (char& letter : found) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return found;
}

/// Whether the environment says how threads wait. What is empty or none of their settings libgomp passes over too.
bool is_waiting_settled() {
  const std::string policy = setting("OMP_WAIT_POLICY"), spins = setting("GOMP_SPINCOUNT");
  return policy.starts_with("active") || policy.starts_with("passive") || spins.starts_with("inf") ||
         (!spins.empty() && std::isdigit(static_cast<unsigned char>(spins[0])) != 0);
}

/// The process's look at its cores. Never destroyed: its thread outlives all that is.
class Watch {
 public:
  static Watch& of_process() {
    static Watch* const watch = new Watch;
    return *watch;
  }

  void enter(int threads) {
    int smallest = threads_.load(std::memory_order_relaxed);
    while (threads < smallest && !threads_.compare_exchange_weak(smallest, threads)) continue;
    computing_.fetch_add(1);
    entries_.fetch_add(1, std::memory_order_relaxed);
    if (!is_asleep_.load()) return;
    const std::lock_guard lock(mutex_);
    if (!has_thread_) has_thread_ = begin();
    wakes_.notify_one();
  }
  void leave() { computing_.fetch_sub(1); }

  bool sleeps() const { return sleeps_.load(std::memory_order_relaxed); }
  /// Whether one team computes and no other, of which each would take the same cores.
  bool computes_alone() const { return computing_.load() == 1; }

 private:
  static constexpr std::chrono::milliseconds kTick{50};
  static constexpr int kIdleTicks = 20;

  bool begin() {
    pthread_t thread{};
    const auto run = [](void* watch) -> void* { static_cast<Watch*>(watch)->run(); };
    const bool begins = with_held_signals([&] { return pthread_create(&thread, nullptr, run, this); }) == 0;
    if (begins) pthread_detach(thread);
    return begins;
  }

  [[noreturn]] void run() {
    while (true) {
      wait_for_work();
      look_while_computing();
    }
  }

  void wait_for_work() {
    std::unique_lock lock(mutex_);
    is_asleep_.store(true);
    wakes_.wait(lock, [&] { return computing_.load() > 0; });
    is_asleep_.store(false);
  }

  /// Until nothing has been computed for a second.
  void look_while_computing() {
    CorePressure pressure;
    auto before = std::chrono::steady_clock::now();
    auto waited_before = seconds_waited_for_cores();
    long entries_before = entries_.load();
    for (int idle = 0; idle < kIdleTicks;) {
      std::this_thread::sleep_for(kTick);
      const auto now = std::chrono::steady_clock::now();
      const auto waited = seconds_waited_for_cores();
      if (waited && waited_before) {
        pressure.add(*waited - *waited_before, std::chrono::duration<double>(now - before).count());
      }
      have_threads_sleep(!waited || pressure.is_high());
      const long entries = entries_.load();
      idle = computing_.load() == 0 && entries == entries_before ? idle + 1 : 0;
      before = now;
      waited_before = waited;
      entries_before = entries;
    }
  }

  void have_threads_sleep(bool sleeps) {
    const int threads = threads_.load();
    if (sleeps == sleeps_.load() && (!sleeps || threads == idle_beside_)) return;
    idle_team_.reset();
    if (sleeps) idle_team_.emplace(threads);
    idle_beside_ = threads;
    sleeps_.store(sleeps);
  }

  std::mutex mutex_;
  std::condition_variable wakes_;
  std::atomic<int> threads_{std::numeric_limits<int>::max()};  // of the smallest team, which leaves most cores
  std::atomic<int> computing_{0};
  std::atomic<long> entries_{0};
  std::atomic<bool> is_asleep_{true}, sleeps_{false};
  bool has_thread_ = false;  // under mutex_
  // Of the watching thread, which allocates nothing: nobody could be told that memory ran out.
  std::optional<IdleTeam> idle_team_;
  int idle_beside_ = 0;  // the team that it is for
};

/// The second number of a thread's schedstat: how long it could have run and did not, in nanoseconds.
std::optional<double> seconds_waited_by(const char* thread) {
  char path[320];  // any name of a file fits
  (void)std::snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", thread);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char text[96];
  const ssize_t length = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (length <= 0) return std::nullopt;
  text[length] = '\0';
  unsigned long long ran = 0, waited = 0;
  if (std::sscanf(text, "%llu %llu", &ran, &waited) != 2 || ran == 0) return std::nullopt;
  return static_cast<double>(waited) * 1e-9;
}

/// The cores that a thread may run on, while it is kept on one of them.
struct Placement {
  bool is_kept = false;
  cpu_set_t before{};

  void keep(int index, int threads) {
    if (sched_getaffinity(0, sizeof before, &before) != 0 || CPU_COUNT(&before) != threads) return;
    int core = 0;
    for (int passed = -1; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &before) && ++passed == index) break;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    is_kept = sched_setaffinity(0, sizeof one, &one) == 0;
  }
  void let_go() {
    (void)sched_setaffinity(0, sizeof before, &before);
    is_kept = false;
  }
};
thread_local Placement placement;

/// Those that a process begins with.
const cpu_set_t& cores_of_process() {
  static const cpu_set_t cores = [] {
    cpu_set_t found{};
    (void)sched_getaffinity(getpid(), sizeof found, &found);
    return found;
  }();
  return cores;
}

}  // namespace

void TeamWaiting::place_thread(int index) const {
  const bool keeps = is_watched_ && Watch::of_process().sleeps() && Watch::of_process().computes_alone();
  if (keeps == placement.is_kept) return;
  keeps ? placement.keep(index, threads_) : placement.let_go();
}

void leave_core_of_team() {
  (void)sched_setaffinity(0, sizeof(cpu_set_t), &cores_of_process());
}

TeamWaiting::TeamWaiting(int threads) : threads_(threads) {
  (void)cores_of_process();  // before any thread is kept on one
  static const bool is_settled = is_waiting_settled();
  is_watched_ = kIsLibgomp && !is_settled && threads > 1;
  if (is_watched_) Watch::of_process().enter(threads);
}

TeamWaiting::~TeamWaiting() {
  if (!is_watched_) return;
  if (placement.is_kept) placement.let_go();
  Watch::of_process().leave();
}

void CorePressure::add(double waited, double elapsed) {
  constexpr double kHigh = 0.25, kLow = 0.1, kQuietSeconds = 0.5;
  if (elapsed <= 0) return;
  const double share = waited / elapsed;
  quiet_seconds_ = share < kLow ? quiet_seconds_ + elapsed : 0;
  if (share > kHigh) is_high_ = true;
  if (quiet_seconds_ >= kQuietSeconds) is_high_ = false;
}

std::optional<double> seconds_waited_for_cores() {
  DIR* const threads = opendir("/proc/self/task");
  if (threads == nullptr) return std::nullopt;
  std::optional<double> sum;
  while (const dirent* entry = readdir(threads)) {
    if (entry->d_name[0] == '.') continue;
    // A thread that has just ended or not yet run tells nothing.
    if (const auto waited = seconds_waited_by(entry->d_name)) sum = sum.value_or(0) + *waited;
  }
  closedir(threads);
  return sum;
}

bool waiting_threads_sleep() {
  return Watch::of_process().sleeps();
}

}  // namespace sectionflow
