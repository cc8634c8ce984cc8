#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/block_checksum.h"
#include "runtime/disk_ring.h"
#include "runtime/swap_file.h"

namespace sectionflow {

/// How a transfer went.
struct DiskOutcome {
  int error = 0;             ///< an errno; 0 when the system refused nothing
  bool file_ended = false;   ///< the file is shorter than it was made
  std::uint64_t offset = 0;  ///< in the file, of the piece that was not carried
  bool ok() const { return error == 0 && !file_ended; }
};

/// Carries bytes to or from a swap file in pieces of kPieceBytes, kDepth of them in flight at a time through io_uring
/// where the kernel has it, otherwise one after the other. They go between the file and the caller's bytes, with no
/// copy of the queue's own. Where offset and address begin at a page, as those of a plan do, whole pages go past the
/// page cache, if the file system allows it; what is less than a page, or lies elsewhere, through the cache. What is
/// interrupted or cut short is taken up again.
///
/// Everything is made by the constructor; transfers allocate nothing. Used by one thread at a time.
class DiskQueue {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{512} << 10;
  static constexpr std::size_t kDepth = 4;

  /// `file` and `calls` must outlive the queue.
  DiskQueue(const SwapFile& file, const DiskCalls& calls)
      : file_(file), calls_(calls), ring_(calls.try_uring, kDepth) {}

  bool uses_uring() const { return ring_.is_open(); }

  /// Carries `num_bytes` and adds them to the checksum in their order. When it returns nothing is in flight, whatever
  /// the outcome.
  DiskOutcome write(std::uint64_t offset, const std::byte* bytes, std::size_t num_bytes, BlockChecksum& checksum);
  DiskOutcome read(std::uint64_t offset, std::byte* bytes, std::size_t num_bytes, BlockChecksum& checksum);

 private:
  /// What is carried, and how much of it has been cut into pieces.
  struct Transfer {
    bool is_write;
    std::uint64_t offset;
    std::byte* bytes;  // read only when it is a write
    std::size_t num_bytes;
    BlockChecksum& checksum;
    std::size_t num_cut = 0;
  };
  /// A part of a transfer that is in flight.
  struct Piece {
    int descriptor = -1;
    bool is_write = false;
    bool is_in_ring = false;
    std::byte* bytes = nullptr;  // the caller's
    std::uint64_t offset = 0;    // in the file
    std::size_t num_bytes = 0, num_done = 0;
    int error = 0;
    bool file_ended = false;
  };

  DiskOutcome carry(Transfer transfer);
  void cut(Transfer& transfer, std::size_t slot);
  void begin(std::size_t slot);
  void finish(std::size_t slot);
  void take(Piece& piece, long result);

  const SwapFile& file_;
  const DiskCalls& calls_;
  DiskRing ring_;
  std::array<Piece, kDepth> pieces_{};
};

}  // namespace sectionflow
