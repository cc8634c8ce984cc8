#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/device_queues.h"
#include "runtime/host_hold.h"

namespace sectionflow {

/// Host memory that a session lends to those who make its feeds: whole blocks, which are kept and lent again, pinned
/// where the device has queues. What it has counts in the session's `host_memory`, block by block (HostHolds).
///
/// Who has a block keeps it, whatever becomes of the session. Where a program needs the bytes, blocks that nobody has
/// are given up; the others are their users' from then on, as feeds that the caller allocates are, and go to the
/// machine when they come back. The same at the session's end. Threads: any number at once.
class LentMemory : public std::enable_shared_from_this<LentMemory> {
 public:
  /// What every block's address can be divided by.
  static constexpr std::size_t kAlignment = 4096;

  /// At most `max_bytes` in all. `queues` are the device's, or nullptr; they must live until close(). For a shared_ptr.
  LentMemory(std::size_t max_bytes, std::shared_ptr<HostHolds> holds, DeviceQueues* queues)
      : max_bytes_(max_bytes), holds_(std::move(holds)), queues_(queues) {}
  ~LentMemory() { close(); }
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

  /// `num_bytes` or more, which hold anything; they come back when the last pointer to them is gone. nullptr for no
  /// bytes, where there is no room, where the machine refuses, and after close(): the log says once why.
  std::shared_ptr<std::byte[]> lend(std::size_t num_bytes);
  /// Whether the device's queues may copy from these bytes by themselves.
  bool is_pinned(const std::byte* bytes, std::size_t num_bytes) const;
  /// Gives up the blocks that nobody has.
  void drop_idle();
  /// The session ends: gives up what nobody has, pins nothing any more, lends nothing from here on.
  void close() noexcept;

  struct Figures {
    std::size_t num_blocks = 0, num_bytes = 0;    ///< there are, whoever has them
    std::size_t lent_blocks = 0, lent_bytes = 0;  ///< of these with somebody
    std::size_t counted_bytes = 0;                ///< of these in `host_memory`
    std::uint64_t lendings = 0, blocks_made = 0;  ///< so far
  };
  Figures figures() const;

 private:
  struct Block {
    std::unique_ptr<DeviceMemory> memory{};
    std::shared_ptr<HostHold> hold{};  // none once its bytes are its user's
    bool is_lent = false, is_pinned = false;
    std::uint64_t last_lent = 0;
  };
  Block* idle_block(std::size_t num_bytes);
  Block* new_block(std::size_t num_bytes);
  bool drop_oldest_idle();
  void drop_all_idle();
  void drop(Block& block) noexcept;
  void give_back(const Block* block);
  void take_back(Block& block) noexcept;
  void refuse(const std::string& why);

  const std::size_t max_bytes_;
  const std::shared_ptr<HostHolds> holds_;

  mutable std::mutex mutex_;  // guards what follows; taken before that of HostHolds, never behind it
  DeviceQueues* queues_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t num_bytes_ = 0;
  std::uint64_t lendings_ = 0, blocks_made_ = 0;
  bool closed_ = false;
  bool machine_refuses_ = false;
  bool has_refused_ = false;
};

}  // namespace sectionflow
