#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/feeds.h"
#include "schedule/program.h"

namespace sectionflow {

class LentMemory;
class QueueProgram;

/// What of the feeds of the execution after the next one is known already, for a device with queues: copied beside the
/// steps of the next one, and there when its own begins. Whoever else is going to write to the region says so before.
class NextFeeds {
 public:
  /// From tensors, which hold their bytes. What an execution has not asked for by then is forgotten.
  void offer(Feeds feeds) { offered_ = std::move(feeds); }
  /// Nothing is offered, and what has arrived is not there any more.
  void forget() noexcept;
  /// What has arrived is not there any more.
  void lose() noexcept;

  /// Says by slot whether the bytes of an execution's feeds have arrived: where the same program has had them copied,
  /// and they are fed from where they lay. Afterwards nothing is there any more, whatever was asked for.
  void take(const Program& program, bool is_whole, std::span<const std::byte* const> feeds, std::vector<bool>& slots);
  /// Gives copy-in what is offered, as far as it is as large as the program's feeds and lies in lent memory: all is
  /// there once the queues are empty. Behind the program's steps.
  void copy(const Program& program, QueueProgram& queue, std::byte* region, const LentMemory* lent);

  bool is_offered() const { return !offered_.empty(); }
  /// Where the highest place ends in which something has arrived, in the program's region; 0: nowhere.
  std::size_t end() const { return arrived_.end; }
  /// Feeds so far.
  struct Figures {
    std::uint64_t copied = 0;   ///< to places ahead
    std::uint64_t arrived = 0;  ///< of these fed from there
  };
  const Figures& figures() const { return figures_; }

 private:
  const std::byte* offered_bytes(const Program& program, std::size_t slot) const;

  struct Arrived {
    std::uint64_t program = 0;                // its number
    std::vector<const std::byte*> sources{};  // by slot, what was copied; nullptr: nothing
    Feeds held{};                             // so that nothing else comes to lie where they do
    std::size_t end = 0;                      // 0: nothing has arrived
  };

  Feeds offered_;
  Arrived arrived_;
  Figures figures_;
};

}  // namespace sectionflow
