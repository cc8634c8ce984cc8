#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/block_checksum.h"
#include "runtime/disk_queue.h"
#include "runtime/swap_file.h"

namespace sectionflow {

/// What a DiskStore is made of.
struct DiskStoreOptions {
  std::string folder{};        ///< empty: the system's temporary folder
  std::size_t num_bytes = 0;   ///< of the file, all taken at once
  std::size_t num_blocks = 0;  ///< block numbers are below it
  /// The tensor of a label, for error texts; may be called on any lane's thread.
  std::function<std::string(const BlockLabel&)> name_of{};
  DiskCalls calls{};
};

/// The number of the block that is a variable's home, by its node: they are below 0, those of offloads are not.
constexpr int home_block(int node) {
  return -1 - node;
}

/// The disk tier: blocks of bytes in one swap file (see SwapFile), each with a checksum that is kept in memory. What is
/// read is what was written under the same label, or an error is thrown before anybody uses it.
///
/// Calls are for the thread of a disk lane: they return when the bytes are carried. Nothing is allocated by them unless
/// they throw. Bytes are carried from and to where they lie: the store holds none, but for what it knows of each block.
///
/// Threads: write and read may run at the same time, for different blocks; calls of one kind take turns.
class DiskStore {
 public:
  /// Throws: what SwapFile throws.
  explicit DiskStore(DiskStoreOptions options);

  /// Puts the bytes at `offset` of the file, as the content of the block. Throws: DeviceError (disk_io), naming tensor,
  /// section, offset and folder, when the file system refuses (full, broken); the block is then without content.
  /// InternalError for a block or bytes outside of the store.
  void write(int block, std::size_t offset, std::span<const std::byte> bytes, const BlockLabel& label);
  /// Reads the block back. Throws: DataError (swap_damaged), naming tensor, section and offset, when these are not the
  /// bytes that were written under this label, or when writing them has failed; what lies in `bytes` then must not be
  /// used. DeviceError (disk_io) as for write. InternalError for a block that was not written, or elsewhere, or of
  /// another length.
  void read(int block, std::size_t offset, std::span<std::byte> bytes, const BlockLabel& label);

  /// Takes block numbers below `num_blocks` from here on; what is stored stays. Only while no lane runs.
  void reserve_blocks(std::size_t num_blocks) { blocks_.resize(std::max(num_blocks, blocks_.size())); }
  /// The same for the blocks of variables whose nodes are below `num_nodes`.
  void reserve_homes(std::size_t num_nodes) { homes_.resize(std::max(num_nodes, homes_.size())); }
  std::size_t num_bytes() const { return file_.num_bytes(); }
  std::size_t num_blocks() const { return blocks_.size(); }
  const std::string& folder() const { return file_.folder(); }

  /// The end of the last byte written since begin_measurement(): the measured peak of the disk tier.
  std::size_t high_water() const { return high_water_.load(std::memory_order_relaxed); }
  void begin_measurement() { high_water_.store(0, std::memory_order_relaxed); }

  /// Whether pieces are in flight through io_uring, and whether whole pages go past the machine's page cache.
  bool uses_uring() const { return out_.queue.uses_uring(); }
  bool uses_direct_access() const { return file_.direct_descriptor() >= 0; }

  /// Only for tests that damage the file.
  int file_descriptor_for_tests() const { return file_.descriptor(); }

 private:
  /// What the store remembers of a block.
  struct Block {
    std::uint64_t offset = 0;
    std::uint64_t num_bytes = 0;
    std::uint64_t checksum = 0;
    BlockLabel label{};
    bool is_written = false;
    bool is_lost = false;  // its bytes have been written in part
  };
  struct Direction {
    Direction(const SwapFile& file, const DiskCalls& calls) : queue(file, calls) {}
    std::mutex mutex;
    DiskQueue queue;
  };

  Block& block_at(int block, std::size_t offset, std::size_t num_bytes);
  /// "tensor 'relu_3' of section 2 in cycle 7 (4.00 MiB at byte 8192 of the swap file in 'folder')"
  std::string place_text(const BlockLabel& label, std::size_t offset, std::size_t num_bytes) const;
  [[noreturn]] void refuse_damaged(const BlockLabel& label, std::size_t offset, std::size_t num_bytes,
                                   const std::string& cause) const;
  [[noreturn]] void refuse(const char* verb, const DiskOutcome& outcome, const BlockLabel& label, std::size_t offset,
                           std::size_t num_bytes) const;

  DiskStoreOptions options_;
  SwapFile file_;
  Direction out_, in_;
  std::vector<Block> blocks_, homes_;
  std::atomic<std::size_t> high_water_{0};
};

}  // namespace sectionflow
