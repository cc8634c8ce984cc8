#include "tests/support/emulated_device.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>

#include "base/error.h"
#include "device/device_queues.h"
#include "device/mapped_memory.h"
#include "device/tf32.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "tests/support/emulated_queues.h"
#include "tests/support/gpu_blocks.h"
#include "tests/support/queued_kernels.h"

namespace sectionflow::testing_support {
namespace {

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
  /// `way`: "in" or "out", for who watches.
  void enqueue_host_copy(void* to, const void* from, std::size_t bytes, const char* way) {
    queues_.push(queue_,
                 {.work = [=] { std::memcpy(to, from, bytes); }, .what = text_of(" copies ", bytes, " bytes ", way)});
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
        queues_(options.seed, options.watch),
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
  void record(DeviceEvent& event, Queue queue) override { queues_.record(event_of(event), queue, false); }
  void record_for_all(DeviceEvent& event, Queue queue) override { queues_.record(event_of(event), queue, true); }
  void wait(Queue queue, DeviceEvent& event) override { queues_.wait(event_of(event), queue); }
  void synchronize(DeviceEvent& event) override { queues_.finish(event_of(event)); }
  void synchronize() override { queues_.finish(); }
  double seconds_between(DeviceEvent& from, DeviceEvent& to) override {
    return event_of(to).time - event_of(from).time;
  }

  void copy_to_host(Queue queue, void* host, const void* device, std::size_t num_bytes) override {
    check_pinned(host, num_bytes);
    native_[static_cast<std::size_t>(queue)].enqueue_host_copy(host, device, num_bytes, "out");
  }
  void copy_from_host(Queue queue, void* device, const void* host, std::size_t num_bytes) override {
    check_pinned(host, num_bytes);
    native_[static_cast<std::size_t>(queue)].enqueue_host_copy(device, host, num_bytes, "in");
  }
  void copy(Queue queue, void* to, const void* from, std::size_t num_bytes) override {
    queues_.push(queue,
                 {.work = [=] { std::memcpy(to, from, num_bytes); }, .what = text_of(" moves ", num_bytes, " bytes")});
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
