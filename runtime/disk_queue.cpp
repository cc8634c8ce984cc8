#include "runtime/disk_queue.h"

#include <algorithm>
#include <cerrno>

#include "base/bytes.h"

namespace sectionflow {

DiskOutcome DiskQueue::write(std::uint64_t offset, const std::byte* bytes, std::size_t num_bytes,
                             BlockChecksum& checksum) {
  return carry({true, offset, const_cast<std::byte*>(bytes), num_bytes, checksum});
}

DiskOutcome DiskQueue::read(std::uint64_t offset, std::byte* bytes, std::size_t num_bytes, BlockChecksum& checksum) {
  return carry({false, offset, bytes, num_bytes, checksum});
}

DiskOutcome DiskQueue::carry(Transfer transfer) {
  // Without a ring a piece is carried when it is finished.
  const std::size_t depth = uses_uring() ? kDepth : 1;
  DiskOutcome outcome;
  std::size_t first = 0, num_in_flight = 0;
  while (true) {
    while (outcome.ok() && num_in_flight < depth && transfer.num_cut < transfer.num_bytes) {
      const std::size_t slot = (first + num_in_flight) % kDepth;
      cut(transfer, slot);
      begin(slot);
      ++num_in_flight;
    }
    if (num_in_flight == 0) return outcome;
    Piece& piece = pieces_[first];
    // After an error, too: nothing may be in flight when the caller goes on.
    finish(first);
    first = (first + 1) % kDepth;
    --num_in_flight;
    if (!outcome.ok()) continue;
    outcome = {piece.error, piece.file_ended, piece.offset + piece.num_done};
    if (outcome.ok() && !transfer.is_write) transfer.checksum.add({piece.bytes, piece.num_bytes});
  }
}

/// Makes the next piece of the transfer: whole pages past the cache, or whatever there is through it.
void DiskQueue::cut(Transfer& transfer, std::size_t slot) {
  Piece& piece = pieces_[slot];
  piece = {};
  piece.is_write = transfer.is_write;
  piece.offset = transfer.offset + transfer.num_cut;
  piece.bytes = transfer.bytes + transfer.num_cut;
  piece.descriptor = file_.descriptor();
  piece.num_bytes = std::min(kPieceBytes, transfer.num_bytes - transfer.num_cut);
  const bool at_page =
      piece.offset % kPageBytes == 0 && reinterpret_cast<std::uintptr_t>(piece.bytes) % kPageBytes == 0;
  if (file_.direct_descriptor() >= 0 && at_page && piece.num_bytes >= kPageBytes) {
    piece.num_bytes -= piece.num_bytes % kPageBytes;
    piece.descriptor = file_.direct_descriptor();
  }
  if (piece.is_write) transfer.checksum.add({piece.bytes, piece.num_bytes});
  transfer.num_cut += piece.num_bytes;
}

void DiskQueue::begin(std::size_t slot) {
  Piece& piece = pieces_[slot];
  piece.is_in_ring = uses_uring() && ring_.begin(slot, piece.is_write, piece.descriptor, piece.bytes + piece.num_done,
                                                 piece.num_bytes - piece.num_done, piece.offset + piece.num_done);
}

/// Sees the piece through to its end.
void DiskQueue::finish(std::size_t slot) {
  Piece& piece = pieces_[slot];
  while (true) {
    if (piece.is_in_ring) {
      const int result = ring_.finish(slot);
      take(piece, calls_.ring_result ? calls_.ring_result(result) : result);
    } else {
      std::byte* bytes = piece.bytes + piece.num_done;
      const std::size_t num_bytes = piece.num_bytes - piece.num_done;
      const auto offset = static_cast<off_t>(piece.offset + piece.num_done);
      const ssize_t carried = piece.is_write ? calls_.pwrite(piece.descriptor, bytes, num_bytes, offset)
                                             : calls_.pread(piece.descriptor, bytes, num_bytes, offset);
      take(piece, carried >= 0 ? carried : -errno);
    }
    if (piece.num_done == piece.num_bytes || piece.error != 0 || piece.file_ended) return;
    begin(slot);
  }
}

/// Notes what the system says of a piece: bytes, or a negative errno.
void DiskQueue::take(Piece& piece, long result) {
  const bool is_direct = piece.descriptor == file_.direct_descriptor();
  if (result == -EINTR || result == -EAGAIN) return;
  if (result > 0) {
    piece.num_done += std::min(static_cast<std::size_t>(result), piece.num_bytes - piece.num_done);
    // The rest need not begin at a page.
    piece.descriptor = file_.descriptor();
  } else if (result == -EINVAL && is_direct) {
    piece.descriptor = file_.descriptor();
  } else if (result == 0) {
    // A write that carries nothing gives no reason.
    piece.file_ended = !piece.is_write;
    piece.error = piece.is_write ? EIO : 0;
  } else {
    piece.error = static_cast<int>(-result);
  }
}

}  // namespace sectionflow
