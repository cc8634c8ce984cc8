#include "tests/support/emulated_device.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"
#include "device/device_queues.h"
#include "device/mapped_memory.h"
#include "device/tf32.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "tests/support/gpu_blocks.h"
#include "tests/support/queued_kernels.h"

namespace sectionflow::testing_support {
namespace {

class Event final : public DeviceEvent {
 public:
  int recorded = 0, passed = 0;  ///< how often
  double time = 0;               // in seconds
};

/// One thing that a queue does: some work, or waiting for an event, or passing one.
struct Task {
  std::function<void()> work{};
  Event* waits_for = nullptr;
  int waits_until = 0;  ///< Event::passed
  Event* passes = nullptr;
};

/// What queues were given, and whether CUDA would have recorded it: a queue other than compute joins by waiting for one
/// that is in, nobody waits for an event from before, and compute waits for all in the end.
struct Recording final : DeviceGraph {
  std::vector<std::pair<Queue, Task>> tasks;
  std::array<bool, kNumQueues> joined{true, false, false};
  std::array<std::size_t, kNumQueues> ends{};  // of the tasks that compute knows to be done
  std::map<Event*, std::pair<Queue, std::size_t>> recorded;
  std::vector<std::pair<int, std::shared_ptr<const void*>>> feeds;  // number, and where its copy finds what it reads

  void use(Queue queue) const {
    SF_CHECK(joined[static_cast<std::size_t>(queue)], InternalError, "recording: a queue works that has not joined");
  }
  std::size_t count(Queue queue) const {
    return static_cast<std::size_t>(std::count_if(
        tasks.begin(), tasks.end(), [=](const auto& task) { return task.first == queue && task.second.work; }));
  }
  void note_record(Queue queue, Event& event) {
    use(queue);
    recorded[&event] = {queue, count(queue)};
  }
  void note_wait(Queue queue, Event& event) {
    const auto found = recorded.find(&event);
    SF_CHECK(found != recorded.end(), InternalError, "recording: a queue waits for an event from before");
    joined[static_cast<std::size_t>(queue)] = true;
    if (queue != Queue::compute) return;
    std::size_t& end = ends[static_cast<std::size_t>(found->second.first)];
    end = std::max(end, found->second.second);
  }
  void check_end() const {
    for (Queue queue : {Queue::copy_out, Queue::copy_in}) {
      SF_CHECK(ends[static_cast<std::size_t>(queue)] == count(queue), InternalError,
               "recording: the compute queue does not wait for all of another");
    }
  }
};

/// Three queues and who goes on next. Threads: any.
class Queues {
 public:
  explicit Queues(std::uint64_t seed) : random_(seed) {}

  void push(Queue queue, Task task) {
    const std::lock_guard lock(mutex_);
    if (recording_ != nullptr) {
      recording_->use(queue);
      recording_->tasks.emplace_back(queue, std::move(task));
    } else {
      place(queue, std::move(task));
    }
  }
  void record(Event& event, Queue queue) {
    const std::lock_guard lock(mutex_);
    if (recording_ != nullptr) {
      recording_->note_record(queue, event);
      recording_->tasks.emplace_back(queue, Task{.passes = &event});
    } else {
      ++event.recorded;
      place(queue, {.passes = &event});
    }
  }
  void wait(Event& event, Queue queue) {
    const std::lock_guard lock(mutex_);
    if (recording_ != nullptr) {
      recording_->note_wait(queue, event);
      recording_->tasks.emplace_back(queue, Task{.waits_for = &event});
    } else {
      place(queue, {.waits_for = &event, .waits_until = event.recorded});
    }
  }
  void finish(Event& event) {
    const std::lock_guard lock(mutex_);
    SF_CHECK(recording_ == nullptr, InternalError, "the host waits for what is only being recorded");
    const int until = event.recorded;
    work_until([&] { return event.passed >= until; });
  }
  void finish() {
    const std::lock_guard lock(mutex_);
    SF_CHECK(recording_ == nullptr, InternalError, "the host waits for what is only being recorded");
    work_until(
        [&] { return std::all_of(tasks_.begin(), tasks_.end(), [](const auto& queue) { return queue.empty(); }); });
  }
  void set_recording(Recording* recording) {
    const std::lock_guard lock(mutex_);
    recording_ = recording;
  }
  void launch(const Recording& recording) {
    const std::lock_guard lock(mutex_);
    for (Queue queue : {Queue::copy_out, Queue::copy_in}) {
      SF_CHECK(tasks_[static_cast<std::size_t>(queue)].empty(), InternalError,
               "a recording is launched beside work of another queue");
    }
    for (const auto& [queue, task] : recording.tasks) {
      Task again = task;
      if (again.waits_for != nullptr) again.waits_until = again.waits_for->recorded;
      if (again.passes != nullptr) ++again.passes->recorded;
      place(queue, std::move(again));
    }
  }
  std::uint64_t draw() { return random_(); }

 private:
  void place(Queue queue, Task task) { tasks_[static_cast<std::size_t>(queue)].push_back(std::move(task)); }

  /// The host's time in seconds, and later than the last one: what is timed on the device and on the host agrees.
  double next_time() {
    const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    time_ = std::max(now, time_ + 1e-9);
    return time_;
  }

  bool is_ready(const std::deque<Task>& queue) const {
    return !queue.empty() &&
           (queue.front().waits_for == nullptr || queue.front().waits_for->passed >= queue.front().waits_until);
  }
  template <class Done>
  void work_until(const Done& done) {
    while (!done()) {
      std::vector<std::deque<Task>*> ready;
      for (std::deque<Task>& queue : tasks_) {
        if (is_ready(queue)) ready.push_back(&queue);
      }
      SF_CHECK(!ready.empty(), InternalError, "the queues wait for each other, or for an event that nobody records");
      std::deque<Task>& queue = *ready[random_() % ready.size()];
      // A burst, so that one queue may run far ahead of another.
      for (std::uint64_t burst = 1 + random_() % 16; burst > 0 && is_ready(queue) && !done(); --burst) {
        const Task task = std::move(queue.front());
        queue.pop_front();
        if (task.work) task.work();
        if (task.passes != nullptr) {
          ++task.passes->passed;
          task.passes->time = next_time();
        }
      }
    }
  }

  std::mutex mutex_;
  std::mt19937_64 random_;
  std::array<std::deque<Task>, kNumQueues> tasks_;
  Recording* recording_ = nullptr;
  double time_ = 0;
};

/// What kernels launch on.
class NativeQueue final : public gpu::HostQueue {
 public:
  NativeQueue(Queues& queues, Queue queue) : queues_(queues), queue_(queue) {}

  void enqueue_each(std::int64_t count, std::function<void(std::int64_t)> body) override {
    push([this, count, body = std::move(body)] {
      // An order that a body relies on, or that decides which of two writes stays, shows.
      switch (queues_.draw() % 3) {
        case 0:
          for (std::int64_t i = 0; i < count; ++i) body(i);
          break;
        case 1:
          for (std::int64_t i = count; i-- > 0;) body(i);
          break;
        default:
          for (std::int64_t i = 0; i < (count + 1) / 2; ++i) {
            body(count - 1 - i);
            if (i != count - 1 - i) body(i);
          }
      }
    });
  }
  void enqueue_blocks(const gpu::LaunchShape& shape, std::function<void(gpu::HostThread&)> body) override {
    push([this, shape, body = std::move(body)] { emulate_blocks(shape, body, queues_.draw()); });
  }
  void enqueue_host(std::function<void()> work) override { push(std::move(work)); }
  void enqueue_copy(void* to, const void* from, std::size_t bytes) override {
    push([=] { std::memcpy(to, from, bytes); });
  }
  void enqueue_fill(void* to, int byte, std::size_t bytes) {
    push([=] { std::memset(to, byte, bytes); });
  }

 private:
  void push(std::function<void()> work) { queues_.push(queue_, {.work = std::move(work)}); }

  Queues& queues_;
  Queue queue_;
};

Event& event_of(DeviceEvent& event) {
  return static_cast<Event&>(event);
}

class EmulatedDevice final : public Device, public DeviceQueues, public Tf32Choice {
 public:
  explicit EmulatedDevice(const EmulatedOptions& options)
      : options_(options),
        queues_(options.seed),
        native_{NativeQueue(queues_, Queue::compute), NativeQueue(queues_, Queue::copy_out),
                NativeQueue(queues_, Queue::copy_in)} {}

  /// What is still pinned would be so for ever.
  ~EmulatedDevice() override {
    if (!pinned_.empty()) std::abort();
  }

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string name() const override { return "cuda:0 (emulated)"; }
  int threads() const override { return 1; }
  std::size_t total_memory() const override { return options_.memory; }
  std::size_t context_bytes() const override { return options_.context * (1 + num_recordings_); }
  std::unique_ptr<DeviceMemory> allocate(std::size_t num_bytes) override {
    SF_CHECK(num_bytes <= options_.memory, DeviceError, "cuda: ", num_bytes, " bytes of an emulated device with ",
             options_.memory);
    return map_memory(num_bytes, {.tier = "cuda", .option = "device_memory"});
  }
  void copy_from_host(void* device, const void* host, std::size_t num_bytes) override {
    queues_.finish();
    if (num_bytes > 0) std::memcpy(device, host, num_bytes);
  }
  void copy_to_host(void* host, const void* device, std::size_t num_bytes) override {
    queues_.finish();
    if (num_bytes > 0) std::memcpy(host, device, num_bytes);
  }
  std::unique_ptr<void, void (*)(void*)> enter() override {
    return {nullptr, [](void*) {}};
  }
  DeviceQueues* queues() override { return this; }
  bool allow_tf32() const override { return options_.allow_tf32; }

  void* native(Queue queue) override { return static_cast<gpu::HostQueue*>(&native_[static_cast<std::size_t>(queue)]); }
  const RandomState* random_state() const override { return &state_; }
  void set_random_state(const RandomState& state) override {
    queues_.finish();
    state_ = state;
  }

  std::unique_ptr<DeviceEvent> make_event() override { return std::make_unique<Event>(); }
  void record(DeviceEvent& event, Queue queue) override { queues_.record(event_of(event), queue); }
  void wait(Queue queue, DeviceEvent& event) override { queues_.wait(event_of(event), queue); }
  void synchronize(DeviceEvent& event) override { queues_.finish(event_of(event)); }
  void synchronize() override { queues_.finish(); }
  double seconds_between(DeviceEvent& from, DeviceEvent& to) override {
    return event_of(to).time - event_of(from).time;
  }

  void copy_to_host(Queue queue, void* host, const void* device, std::size_t num_bytes) override {
    check_pinned(host, num_bytes);
    native_[static_cast<std::size_t>(queue)].enqueue_copy(host, device, num_bytes);
  }
  void copy_from_host(Queue queue, void* device, const void* host, std::size_t num_bytes) override {
    check_pinned(host, num_bytes);
    native_[static_cast<std::size_t>(queue)].enqueue_copy(device, host, num_bytes);
  }
  void copy_feed(int feed, void* device, const void* host, std::size_t num_bytes) override {
    check_pinned(host, num_bytes);
    const auto source = std::make_shared<const void*>(host);
    if (recording_ != nullptr) recording_->feeds.emplace_back(feed, source);
    queues_.push(Queue::compute, {.work = [=] { std::memcpy(device, *source, num_bytes); }});
  }
  void fill(Queue queue, void* device, int byte, std::size_t num_bytes) override {
    native_[static_cast<std::size_t>(queue)].enqueue_fill(device, byte, num_bytes);
  }
  std::unique_ptr<DeviceMemory> allocate_host(std::size_t num_bytes) override {
    return map_pinned_memory(num_bytes, {.tier = "host", .option = "host_memory"}, *this);
  }
  void pin(void* host, std::size_t num_bytes) override {
    const std::lock_guard lock(pinned_mutex_);
    SF_CHECK(pinned_bytes_ + num_bytes <= options_.pinnable, DeviceError, "host: ", num_bytes,
             " bytes of memory could not be pinned");
    SF_CHECK(num_bytes > 0 && pinned_.emplace(static_cast<std::byte*>(host), num_bytes).second, InternalError,
             "pinned twice, or nothing");
    pinned_bytes_ += num_bytes;
  }
  void unpin(void* host) noexcept override {
    const std::lock_guard lock(pinned_mutex_);
    const auto found = pinned_.find(static_cast<std::byte*>(host));
    if (found == pinned_.end()) std::abort();
    pinned_bytes_ -= found->second;
    pinned_.erase(found);
  }

  void begin_recording() override {
    queues_.finish();
    recording_ = std::make_unique<Recording>();
    queues_.set_recording(recording_.get());
  }
  std::unique_ptr<DeviceGraph> end_recording() override {
    recording_->check_end();
    SF_CHECK(!options_.refuses_recordings, DeviceError, "no memory is left for the recording");
    queues_.set_recording(nullptr);
    ++num_recordings_;
    return std::move(recording_);
  }
  void set_feeds(DeviceGraph& graph, std::span<const std::byte* const> hosts) override {
    for (auto& [feed, source] : static_cast<Recording&>(graph).feeds) {
      SF_CHECK(!options_.refuses_feeds, DeviceError, "a recorded copy cannot be changed");
      *source = hosts[static_cast<std::size_t>(feed)];
    }
  }
  void cancel_recording() noexcept override {
    queues_.set_recording(nullptr);
    recording_.reset();
  }
  void launch(DeviceGraph& graph) override { queues_.launch(static_cast<Recording&>(graph)); }

 private:
  /// A GPU's queues would copy from and to other memory too, but not beside the host.
  void check_pinned(const void* host, std::size_t num_bytes) {
    const std::lock_guard lock(pinned_mutex_);
    const auto* begin = static_cast<const std::byte*>(host);
    const auto behind = pinned_.upper_bound(const_cast<std::byte*>(begin));
    const auto found = behind == pinned_.begin() ? pinned_.end() : std::prev(behind);
    SF_CHECK(num_bytes == 0 || (found != pinned_.end() && begin + num_bytes <= found->first + found->second),
             InternalError, "a queue is to copy ", num_bytes, " bytes that are not pinned");
  }

  EmulatedOptions options_;
  Queues queues_;
  std::array<NativeQueue, kNumQueues> native_;
  RandomState state_;
  std::mutex pinned_mutex_;  // guards what follows
  std::map<std::byte*, std::size_t> pinned_;
  std::size_t pinned_bytes_ = 0;

  std::unique_ptr<Recording> recording_;
  std::size_t num_recordings_ = 0;
};

// A plain function makes the devices of a module, so what it needs lies outside of it.
EmulatedOptions current_options;
std::uint64_t current_order = 0;

}  // namespace

std::unique_ptr<Device> make_emulated_device(const EmulatedOptions& options) {
  EmulatedOptions ordered = options;
  ordered.seed += current_order << 32;  // 0: the order of the seed alone
  return std::make_unique<EmulatedDevice>(ordered);
}

EmulatedOrder::EmulatedOrder(std::uint64_t number) {
  current_order = number;
}
EmulatedOrder::~EmulatedOrder() {
  current_order = 0;
}

EmulatedCuda::EmulatedCuda(const EmulatedOptions& options) {
  current_options = options;
  module_ = {.num_devices = 1,
             .make_device = [](const DeviceSpec&) { return make_emulated_device(current_options); },
             .kernels = options.kernels == EmulatedKernels::cuda ? cuda_kernels : queued_cpu_kernels};
  set_cuda_module(&module_);
}

EmulatedCuda::~EmulatedCuda() {
  set_cuda_module(nullptr);
}

}  // namespace sectionflow::testing_support
