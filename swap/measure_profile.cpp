#include "swap/measure_profile.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <thread>

#include "base/bytes.h"
#include "base/error.h"
#include "base/held_signals.h"
#include "device/device_queues.h"
#include "device/team_waiting.h"
#include "runtime/arena.h"
#include "runtime/device_bytes.h"
#include "runtime/disk_store.h"
#include "runtime/engine.h"
#include "swap/scratch_places.h"
#include "swap/step_times.h"

namespace sectionflow {
namespace {

using Clock = std::chrono::steady_clock;

/// A block long enough that caches and the cost of a call do not matter, as far as there is room.
constexpr std::size_t kLinkBlock = 32_MiB, kDiskBlock = 16_MiB;
/// As many of a link that no more lies in caches than of what a cycle copies.
constexpr std::size_t kLinkBlocks = 4;

template <class Work>
double seconds_of(const Work& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

/// Bytes a second of what moves `bytes`; no faster than a clock without ticks would give. The first `untimed` touch the
/// pages.
template <class Work>
double rate_of(std::size_t bytes, int repeats, const Work& work, std::size_t untimed = 1) {
  for (std::size_t i = 0; i < untimed; ++i) work();
  std::vector<double> samples;
  for (int i = 0; i < repeats; ++i) samples.push_back(seconds_of(work));
  constexpr double kShortest = 1e-7;
  return static_cast<double>(bytes) / std::max(median(samples), kShortest);
}

/// How long kernels take: on a GPU by marks of its compute queue, since giving it one kernel and waiting for it takes
/// longer than many kernels do.
class KernelClock {
 public:
  explicit KernelClock(Device& device) : device_(device), queues_(device.queues()) {
    if (queues_ == nullptr) return;
    begin_ = queues_->make_event();
    end_ = queues_->make_event();
  }

  double seconds_of_launch(Kernel& kernel, KernelArguments arguments) {
    if (queues_ == nullptr) return seconds_of([&] { launch_and_wait(kernel, arguments, device_); });
    arguments.queue = queues_->native(Queue::compute);
    arguments.random_state = queues_->random_state();
    queues_->record(*begin_, Queue::compute);
    kernel.launch(arguments);
    queues_->record(*end_, Queue::compute);
    queues_->synchronize(*end_);
    return queues_->seconds_between(*begin_, *end_);
  }

 private:
  Device& device_;
  DeviceQueues* queues_;
  std::unique_ptr<DeviceEvent> begin_, end_;
};

/// Small numbers that are no zeros, in f32 and bf16: hardware is faster on zeros.
constexpr int kFilling = 0x3C;

/// Launches what a program executes, one kernel after the other, on scratch bytes.
class KernelRounds {
 public:
  KernelRounds(const Engine& engine, const Engine::Workbench& bench, const Program& program)
      : engine_(engine),
        bench_(bench),
        program_(program),
        graph_(engine.graph(), program.signature),
        places_(program, bench.variables, bench.base, bench.region),
        clock_(bench.device) {
    fill_device_bytes(bench.device, bench.region.data(), places_.used_bytes(), kFilling);
  }

  std::string key_of(const Step& step) const { return kernel_key(graph_, step, kernel_of(step)); }

  /// Those for whose operands there is room: `note(step, seconds)` of each step that is `wanted`.
  template <class Wanted, class Note>
  void launch(const Wanted& wanted, const Note& note) {
    for (const Step& step : program_.schedule.steps) {
      if (step.kind != StepKind::compute || !wanted(step)) continue;
      const OpDef& op = engine_.graph().node(step.node).op();
      if (op.prints || op.communicates) continue;
      Kernel& kernel = kernel_of(step);
      const PlacedOperands placed = places_.place(step, engine_.graph(), kernel.workspace_bytes());
      if (!placed.fits) continue;
      for (const auto& bytes : placed.indices) fill_device_bytes(bench_.device, bytes.data(), bytes.size(), 0);
      note(step, clock_.seconds_of_launch(kernel, {.inputs = placed.inputs,
                                                   .outputs = placed.outputs,
                                                   .updated = placed.updated,
                                                   .workspace = placed.workspace,
                                                   .random = {engine_.options().seed,
                                                              engine_.graph().node(step.node).random_ordinal(), 0}}));
    }
  }

 private:
  Kernel& kernel_of(const Step& step) const { return *program_.kernels[static_cast<std::size_t>(step.slot)]; }

  const Engine& engine_;
  const Engine::Workbench& bench_;
  const Program& program_;
  const ConcreteGraph graph_;
  ScratchPlaces places_;
  KernelClock clock_;
};

/// Of the kernels that the profile does not know.
void measure_kernels(KernelRounds& kernels, int repeats, Profile& profile) {
  std::map<std::string, std::vector<double>> samples;
  // Round after round, so that each launch finds the caches as the ones before it in a cycle leave them; the first
  // round only warms up.
  for (int round = 0; round <= repeats; ++round) {
    kernels.launch([&](const Step& step) { return !profile.kernel_seconds.contains(kernels.key_of(step)); },
                   [&](const Step& step, double seconds) {
                     if (round > 0) samples[kernels.key_of(step)].push_back(seconds);
                   });
  }
  for (auto& [key, of_kernel] : samples) profile.kernel_seconds[key] = median(std::move(of_kernel));
}

/// A thread that copies as fast as it can while this lives.
class BusyCopies {
 public:
  explicit BusyCopies(std::span<std::byte> bytes)
      : thread_(with_held_signals([&] { return std::thread([this, bytes] { copy(bytes); }); })) {}
  ~BusyCopies() {
    ends_ = true;
    thread_.join();
  }
  BusyCopies(const BusyCopies&) = delete;
  BusyCopies& operator=(const BusyCopies&) = delete;

  std::size_t copied_bytes() const { return copied_; }

 private:
  static constexpr std::size_t kPiece = 256_KiB;
  void copy(std::span<std::byte> bytes) {
    leave_core_of_team();
    const std::size_t half = bytes.size() / 2;
    while (!ends_) {
      for (std::size_t at = 0; at < half && !ends_; at += kPiece) {
        const std::size_t piece = std::min(kPiece, half - at);
        std::memcpy(bytes.data() + at, bytes.data() + half + at, piece);
        copied_ += piece;
      }
    }
  }

  std::atomic<bool> ends_{false};
  std::atomic<std::size_t> copied_{0};
  std::thread thread_;
};

/// By how much longer the kernels take beside copies, quiet rounds and others in turns.
void measure_drag(KernelRounds& kernels, int repeats, Profile& profile) {
  constexpr double kLongEnough = 0.03;
  constexpr int kMostRounds = 100;
  const auto seconds_of_rounds = [&](int rounds) {
    double seconds = 0;
    for (int round = 0; round < rounds; ++round) {
      kernels.launch([](const Step&) { return true; }, [&](const Step&, double took) { seconds += took; });
    }
    return seconds;
  };
  const double once = seconds_of_rounds(1);
  const int rounds = once > 0 ? static_cast<int>(std::clamp(kLongEnough / once, 1.0, 1.0 * kMostRounds)) : 1;
  std::vector<std::byte> host(kLinkBlocks * kLinkBlock);
  std::vector<double> samples;
  for (int i = 0; i < repeats; ++i) {
    const double quiet = seconds_of_rounds(rounds);
    const BusyCopies copies(host);
    const double beside = seconds_of_rounds(rounds);
    const std::size_t bytes = copies.copied_bytes();
    samples.push_back(bytes > 0 ? std::max(beside - quiet, 0.0) / static_cast<double>(bytes) : 0);
  }
  profile.copy_drag = median(std::move(samples));
}

void measure_links(const Engine& engine, const Engine::Workbench& bench, int repeats, Profile& profile) {
  const std::size_t bytes = std::min(kLinkBlock, bench.region.size());
  if (bytes == 0) return;
  if (DeviceQueues* queues = bench.device.queues()) {
    QueueCopies copies(*queues, bytes);
    profile.link_in = rate_of(bytes, repeats, [&] { copies.copy_in(bench.region.data()); });
    profile.link_out = rate_of(bytes, repeats, [&] { copies.copy_out(bench.region.data()); });
    profile.memory_bandwidth =
        rate_of(bytes, repeats, [&] { fill_device_bytes(bench.device, bench.region.data(), bytes, 0); });
    return;
  }
  CopyBlocks blocks(bench.region, kLinkBlock, kLinkBlocks);
  const auto rate_between = [&](const auto& copy) {
    const auto copy_next = [&] {
      const CopyBlocks::Pair pair = blocks.next();
      copy(pair.device, pair.host);
    };
    return rate_of(bytes, repeats, copy_next, blocks.count());
  };
  Device& machine = bench.device;
  profile.link_in =
      rate_between([&](std::byte* device, std::byte* host) { machine.copy_from_host(device, host, bytes); });
  profile.memory_bandwidth = profile.link_in;
  profile.link_out =
      rate_between([&](std::byte* device, std::byte* host) { machine.copy_to_host(host, device, bytes); });
  if (!engine.options().copy_threads) return;
  const auto measure = [&] {
    leave_core_of_team();
    profile.link_in = rate_between([&](std::byte* device, std::byte* host) { std::memcpy(device, host, bytes); });
    profile.link_out = rate_between([&](std::byte* device, std::byte* host) { std::memcpy(host, device, bytes); });
  };
  with_held_signals([&] { return std::thread(measure); }).join();
}

void measure_disk(const Engine& engine, int repeats, Profile& profile) {
  const std::size_t bytes = std::min(kDiskBlock, engine.budgets().disk);
  if (bytes == 0) return;
  DiskStore store({.folder = engine.options().swap_directory,
                   .num_bytes = bytes,
                   .num_blocks = 1,
                   .name_of = [](const BlockLabel&) { return std::string("a measurement"); },
                   .calls = {}});
  HostPool pool(bytes);
  const std::span<std::byte> block(pool.data(), bytes);
  profile.disk_out = rate_of(bytes, repeats, [&] { store.write(0, 0, block, {}); });
  profile.disk_in = rate_of(bytes, repeats, [&] { store.read(0, 0, block, {}); });
}

enum class Measured { everything, unknown_kernels };

void measure(Engine& engine, const Program& program, int repeats, Measured what, Profile& profile) {
  SF_CHECK(repeats >= 1, ArgumentError, "measure_profile: ", repeats, " repeats; wanted at least 1");
  const auto inside = engine.enter();
  const Engine::Workbench bench = engine.workbench();
  engine.check_nodes(program);
  const auto entered = bench.device.enter();
  if (what == Measured::everything) {
    measure_links(engine, bench, repeats, profile);
    measure_disk(engine, repeats, profile);
  }
  KernelRounds kernels(engine, bench, program);
  measure_kernels(kernels, repeats, profile);
  const bool has_copy_threads = engine.options().copy_threads && bench.device.queues() == nullptr;
  if (what == Measured::everything && has_copy_threads) measure_drag(kernels, repeats, profile);
}

}  // namespace

Profile measure_profile(Session& session, const std::vector<Value>& fetches, const FeedTypes& feeds,
                        const RunOptions& options, int repeats) {
  Profile profile;
  measure(engine(session), engine(session).whole_program(fetches, feeds, options), repeats, Measured::everything,
          profile);
  return profile;
}

Profile load_or_measure_profile(const std::string& path, Session& session, const std::vector<Value>& fetches,
                                const FeedTypes& feeds, const RunOptions& options, int repeats) {
  bool is_measured = false;
  Profile profile = Profile::load_or_measure(path, [&] {
    is_measured = true;
    return measure_profile(session, fetches, feeds, options, repeats);
  });
  if (is_measured) return profile;
  const std::size_t known = profile.kernel_seconds.size();
  measure(engine(session), engine(session).whole_program(fetches, feeds, options), repeats, Measured::unknown_kernels,
          profile);
  if (profile.kernel_seconds.size() > known) profile.save(path);
  return profile;
}

}  // namespace sectionflow
