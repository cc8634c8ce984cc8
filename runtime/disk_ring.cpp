#include "runtime/disk_ring.h"

#ifdef SECTIONFLOW_HAS_URING

#include <liburing.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

namespace sectionflow {

struct DiskRing::Ring {
  explicit Ring(std::size_t depth) : results(depth), has_ended(depth, true) {}
  io_uring uring{};
  bool is_refused = false;  // the kernel took no more
  std::vector<int> results;
  std::vector<bool> has_ended;
};

namespace {

bool reads_and_writes(io_uring& uring) {
  io_uring_probe* probe = io_uring_get_probe_ring(&uring);
  if (probe == nullptr) return false;
  const bool can =
      io_uring_opcode_supported(probe, IORING_OP_READ) != 0 && io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  io_uring_free_probe(probe);
  return can;
}

}  // namespace

DiskRing::DiskRing(bool wanted, std::size_t depth) {
  if (!wanted) return;
  auto ring = std::make_unique<Ring>(depth);
  if (io_uring_queue_init(static_cast<unsigned>(depth), &ring->uring, 0) != 0) return;
  if (!reads_and_writes(ring->uring)) {
    io_uring_queue_exit(&ring->uring);
    return;
  }
  ring_ = std::move(ring);
}

DiskRing::~DiskRing() {
  if (ring_ != nullptr) io_uring_queue_exit(&ring_->uring);
}

bool DiskRing::begin(std::size_t slot, bool is_write, int descriptor, std::byte* bytes, std::size_t num_bytes,
                     std::uint64_t offset) {
  if (ring_->is_refused) return false;
  // There is one entry a slot, and each is handed over at once.
  io_uring_sqe* entry = io_uring_get_sqe(&ring_->uring);
  if (is_write) {
    io_uring_prep_write(entry, descriptor, bytes, static_cast<unsigned>(num_bytes), offset);
  } else {
    io_uring_prep_read(entry, descriptor, bytes, static_cast<unsigned>(num_bytes), offset);
  }
  io_uring_sqe_set_data64(entry, slot);
  int taken = 0;
  do {
    taken = io_uring_submit(&ring_->uring);
  } while (taken == -EINTR || taken == -EAGAIN || taken == -EBUSY);
  // The entry would go with the next submission, when its bytes may be another's: so there is none any more.
  if (taken != 1) {
    ring_->is_refused = true;
    return false;
  }
  ring_->has_ended[slot] = false;
  return true;
}

int DiskRing::finish(std::size_t slot) {
  while (!ring_->has_ended[slot]) {
    io_uring_cqe* entry = nullptr;
    const int error = io_uring_wait_cqe(&ring_->uring, &entry);
    if (error != 0) {
      // Only the kernel's word ends the wait: until then it may still touch the bytes.
      if (error != -EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    const auto ended = static_cast<std::size_t>(io_uring_cqe_get_data64(entry));
    ring_->results[ended] = entry->res;
    ring_->has_ended[ended] = true;
    io_uring_cqe_seen(&ring_->uring, entry);
  }
  return ring_->results[slot];
}

}  // namespace sectionflow

#else

namespace sectionflow {

struct DiskRing::Ring {};

DiskRing::DiskRing(bool, std::size_t) {}
DiskRing::~DiskRing() = default;
bool DiskRing::begin(std::size_t, bool, int, std::byte*, std::size_t, std::uint64_t) {
  return false;
}
int DiskRing::finish(std::size_t) {
  return 0;
}

}  // namespace sectionflow

#endif
