#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "device/device_queues.h"
#include "device/throttle.h"
#include "runtime/arena.h"
#include "runtime/disk_store.h"
#include "runtime/executable.h"
#include "runtime/lane_team.h"

namespace sectionflow {

/// What a swap engine carries with.
struct SwapEngineOptions {
  std::size_t host_memory = 0;      ///< bytes of the pool
  std::size_t disk = 0;             ///< bytes of the swap file; 0: none
  std::string swap_directory;       ///< empty: the system's folder for temporary files
  double link_bandwidth = 0;        ///< bytes a second and direction; 0: unlimited
  std::uint64_t random_delays = 0;  ///< seed of a random delay before every step; 0: none
  DiskCalls calls{};
  DeviceQueues* queues =
      nullptr;  ///< of the device, where it has some: they carry copies, and the pool is pinned for them
};

/// Carries bytes between device, host and disk as the steps of a program say. Owns the pool of host memory, the swap
/// file and the threads of the lanes; each is made when a program first needs it. Knows no graph and has no policy.
///
/// Threads: `carry` is called by one thread a lane; everything else by one thread while no lane runs.
class SwapEngine {
 public:
  /// `graph` gives the tensors' names in errors; it must outlive this. Throws: ArgumentError for a bandwidth that is
  /// none.
  SwapEngine(const Graph& graph, SwapEngineOptions options)
      : graph_(graph),
        options_(std::move(options)),
        out_(options_.link_bandwidth),
        in_(options_.link_bandwidth),
        queues_(options_.queues) {}
  ~SwapEngine();

  /// Makes what the program needs. Throws: DeviceError, BudgetError naming the tier.
  void prepare(const Program& program);
  /// Where host buffers lie; nullptr while no program has needed any.
  std::byte* host_base() const { return host_ ? host_->data() : nullptr; }

  /// Executes one transfer step of a bound program. Throws: DeviceError, DataError of the disk tier.
  void carry(const Executable& program, StepIndex index, std::uint64_t cycle, Device& device);
  /// The home of a variable on disk, at its place in the swap file, from or to where it lies elsewhere, while no lane
  /// runs. Throws: as carry.
  void write_home(NodeId variable, std::size_t offset, std::span<const std::byte> bytes);
  void read_home(NodeId variable, std::size_t offset, std::span<std::byte> bytes);
  /// Sleeps for a while that depends on the step and the seed alone, if delays were asked for.
  void delay(StepIndex index, std::uint64_t cycle) const;

  /// A thread for each lane but the first.
  LaneTeam& team() { return *team_; }
  LaneProgress& progress() { return progress_; }
  /// How often the pool has been pinned: recordings from before the last time are void.
  int pinnings() const { return pinnings_; }

  /// For tests that let the disk fail: a swap file made from here on uses these.
  void set_disk_calls(const DiskCalls& calls) { options_.calls = calls; }

  /// Fills what a program is going to use with a canary; afterwards the highest byte that has been written.
  void begin_measurement(const Program& program);
  /// The same for a program that is executed besides the one that is measured: what that has written stays, and counts.
  void extend_measurement(const Program& program);
  std::size_t measured_host_peak(const Program& program);
  std::size_t measured_disk_peak(const Program& program) const;

 private:
  void pin(std::size_t bytes);
  std::size_t host_window(const Program& program, std::size_t pinned_bytes) const;
  std::string name_of(const BlockLabel& label) const;
  void carry_by_disk(const Executable& program, StepIndex index, std::uint64_t cycle);
  BlockLabel label_of(const Program& program, const Step& step, std::uint64_t cycle) const;
  BlockLabel label_of_home(NodeId variable) const;

  const Graph& graph_;
  SwapEngineOptions options_;
  Throttle out_, in_;
  std::unique_ptr<HostPool> host_;
  std::unique_ptr<DiskStore> disk_;
  std::unique_ptr<LaneTeam> team_;
  LaneProgress progress_{kNumLanes};
  DeviceQueues* queues_;
  std::size_t pinned_bytes_ = 0;
  int pinnings_ = 0;
};

}  // namespace sectionflow
