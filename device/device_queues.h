#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/export.h"
#include "base/random.h"
#include "device/device.h"

namespace SF_API sectionflow {

/// The queues of an asynchronous device: kernels, copies from the device, copies to it. Each is worked off in its
/// order, beside the others.
enum class Queue { compute, copy_out, copy_in };
/// How many queues there are.
inline constexpr int kNumQueues = 3;

/// A point in a queue, to be waited for.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
};

/// Work of all queues that has been recorded, to be launched as often as one likes.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};

/// How an asynchronous device is given work. All calls but synchronize return before the work is done; what goes wrong
/// later is thrown by a later call. `host` memory of copies is that of allocate_host, or pinned, and must stay until
/// they are done.
///
/// Threads: a queue belongs to one thread at a time; different queues may belong to different threads. pin and unpin
/// may be called by any, whatever the others do.
class DeviceQueues {
 public:
  virtual ~DeviceQueues() = default;

  /// What kernels launch on: a cudaStream_t on CUDA.
  virtual void* native(Queue queue) = 0;
  /// Where kernels find seed and cycle, in device memory.
  virtual const RandomState* random_state() const = 0;
  /// Sets what random_state() points to, for what the compute queue is given from here on, graphs included. Call it
  /// while the queues are empty, and not while recording.
  virtual void set_random_state(const RandomState& state) = 0;

  /// Throws: DeviceError when the machine refuses.
  virtual std::unique_ptr<DeviceEvent> make_event() = 0;
  /// The event stands for all that `queue` has been given so far.
  virtual void record(DeviceEvent& event, Queue queue) = 0;
  /// The same for those who wait for it outside of a recording that may be under way: then each launch of the recording
  /// records the event.
  virtual void record_for_all(DeviceEvent& event, Queue queue) = 0;
  /// What `queue` is given from here on waits for the event's latest record.
  virtual void wait(Queue queue, DeviceEvent& event) = 0;
  /// The calling thread waits for the event's latest record.
  virtual void synchronize(DeviceEvent& event) = 0;
  /// The calling thread waits until all queues are empty. Throws: DeviceError for what went wrong in them.
  virtual void synchronize() = 0;
  /// Seconds between two events that have passed.
  virtual double seconds_between(DeviceEvent& from, DeviceEvent& to) = 0;

  virtual void copy_to_host(Queue queue, void* host, const void* device, std::size_t num_bytes) = 0;
  virtual void copy_from_host(Queue queue, void* device, const void* host, std::size_t num_bytes) = 0;
  /// From device memory to device memory.
  virtual void copy(Queue queue, void* to, const void* from, std::size_t num_bytes) = 0;
  /// A copy of the compute queue whose recordings may read other memory later: that of feed number `feed`, from 0.
  virtual void copy_feed(int feed, void* device, const void* host, std::size_t num_bytes) = 0;
  virtual void fill(Queue queue, void* device, int byte, std::size_t num_bytes) = 0;
  /// Host memory that the device copies from and to by itself (pinned). Throws: DeviceError.
  virtual std::unique_ptr<DeviceMemory> allocate_host(std::size_t num_bytes) = 0;
  /// Pins memory that somebody else has mapped, from a page's beginning on; what is pinned takes real memory at once.
  /// Throws: DeviceError.
  virtual void pin(void* host, std::size_t num_bytes) = 0;
  virtual void unpin(void* host) noexcept = 0;

  /// From here on what the queues are given is recorded instead of done. The compute queue records first; other queues
  /// join by waiting for it, and it must wait for them before end_recording. Until then nothing may wait for an event
  /// from before, nor the host for anything; copies of Device, allocations and set_random_state are refused by the
  /// machine.
  virtual void begin_recording() = 0;
  virtual std::unique_ptr<DeviceGraph> end_recording() = 0;
  /// Forgets a recording that went wrong.
  virtual void cancel_recording() noexcept = 0;
  /// From the next launch on the recording's copies of feed number i read `hosts[i]`, where there are as many bytes as
  /// they were recorded with. While the queues are empty. Throws: DeviceError where the machine refuses.
  virtual void set_feeds(DeviceGraph& graph, std::span<const std::byte* const> hosts) = 0;
  /// As one piece of work of the compute queue. The other queues must be empty: they are not waited for.
  virtual void launch(DeviceGraph& graph) = 0;
};

}  // namespace sectionflow
