#include "runtime/lent_memory.h"

#include <glog/logging.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <new>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "device/mapped_memory.h"

namespace sectionflow {
namespace {

/// So that finding one stays cheap where somebody keeps every batch that he gets.
constexpr std::size_t kMostBlocks = 1024;

/// Whole pages, in eighths of a power of two: batches of nearly one size have blocks of one size.
std::size_t block_bytes(std::size_t num_bytes) {
  return round_up(num_bytes, std::max(LentMemory::kAlignment, std::bit_floor(num_bytes) / 8));
}

}  // namespace

std::shared_ptr<std::byte[]> LentMemory::lend(std::size_t num_bytes) {
  Block* block = nullptr;
  try {
    const std::lock_guard lock(mutex_);
    if (closed_ || num_bytes == 0) return nullptr;
    block = idle_block(num_bytes);
    if (block == nullptr) block = new_block(num_bytes);
    if (block == nullptr) return nullptr;
    block->is_lent = true;
    block->last_lent = ++lendings_;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  try {
    // Outside of the lock: where there is no memory for the pointer's own needs, it gives the bytes back at once.
    return {block->memory->data(), [pool = shared_from_this(), block](std::byte*) { pool->take_back(*block); }};
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

/// The smallest that is large enough; none of which the half would be wasted.
LentMemory::Block* LentMemory::idle_block(std::size_t num_bytes) {
  Block* best = nullptr;
  const std::size_t most = std::max(2 * num_bytes, block_bytes(num_bytes));
  for (const auto& block : blocks_) {
    const std::size_t bytes = block->memory->num_bytes();
    if (block->is_lent || bytes < num_bytes || bytes > most) continue;
    if (best == nullptr || bytes < best->memory->num_bytes()) best = block.get();
  }
  return best;
}

LentMemory::Block* LentMemory::new_block(std::size_t num_bytes) {
  if (machine_refuses_) return nullptr;
  if (num_bytes > max_bytes_ || block_bytes(num_bytes) > max_bytes_) {
    refuse(text_of("lent_memory is ", bytes_text(max_bytes_), ", which has no room for ", bytes_text(num_bytes)));
    return nullptr;
  }
  const std::size_t bytes = block_bytes(num_bytes);
  while (bytes > max_bytes_ - num_bytes_ || blocks_.size() == kMostBlocks) {
    if (drop_oldest_idle()) continue;
    refuse(blocks_.size() == kMostBlocks ? text_of("somebody keeps all ", kMostBlocks, " blocks that it may have")
                                         : text_of("those that are kept take ", bytes_text(num_bytes_),
                                                   " of lent_memory, which is ", bytes_text(max_bytes_)));
    return nullptr;
  }
  auto block = std::make_unique<Block>();
  blocks_.reserve(blocks_.size() + 1);
  const auto give_back = [pool = weak_from_this(), which = block.get()] {
    if (const auto alive = pool.lock()) alive->give_back(which);
  };
  do {
    block->hold = holds_->hold_free(bytes, give_back);
  } while (block->hold == nullptr && drop_oldest_idle());
  if (block->hold == nullptr) {
    refuse(text_of("host_memory has no room for ", bytes_text(bytes),
                   " beside what programs and copies of variables take"));
    return nullptr;
  }
  try {
    block->memory = map_memory(bytes, {.tier = "host", .option = "lent_memory", .must_be_there = true});
    if (queues_ != nullptr) queues_->pin(block->memory->data(), bytes);
    block->is_pinned = queues_ != nullptr;
  } catch (const DeviceError& error) {
    // It would be asked for every batch otherwise.
    machine_refuses_ = true;
    refuse(error.what());
    return nullptr;
  }
  num_bytes_ += bytes;
  ++blocks_made_;
  blocks_.push_back(std::move(block));
  return blocks_.back().get();
}

void LentMemory::refuse(const std::string& why) {
  LOG_IF(WARNING, !std::exchange(has_refused_, true))
      << "batches lie in memory of their own where the session has none to lend: " << why;
}

bool LentMemory::is_pinned(const std::byte* bytes, std::size_t num_bytes) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(blocks_.begin(), blocks_.end(), [&](const auto& block) {
    const std::byte* begin = block->memory->data();
    const std::size_t size = block->memory->num_bytes();
    return block->is_pinned && num_bytes <= size && std::less_equal<>()(begin, bytes) &&
           std::less_equal<>()(bytes, begin + (size - num_bytes));
  });
}

void LentMemory::drop_idle() {
  const std::lock_guard lock(mutex_);
  drop_all_idle();
}

void LentMemory::close() noexcept {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  drop_all_idle();
  for (const auto& block : blocks_) {
    if (std::exchange(block->is_pinned, false)) queues_->unpin(block->memory->data());
    block->hold.reset();
  }
  queues_ = nullptr;
}

LentMemory::Figures LentMemory::figures() const {
  const std::lock_guard lock(mutex_);
  Figures figures{
      .num_blocks = blocks_.size(), .num_bytes = num_bytes_, .lendings = lendings_, .blocks_made = blocks_made_};
  for (const auto& block : blocks_) {
    const std::size_t bytes = block->memory->num_bytes();
    if (block->is_lent) ++figures.lent_blocks, figures.lent_bytes += bytes;
    if (block->hold != nullptr) figures.counted_bytes += bytes;
  }
  return figures;
}

/// False where there is none.
bool LentMemory::drop_oldest_idle() {
  Block* oldest = nullptr;
  for (const auto& block : blocks_) {
    if (!block->is_lent && (oldest == nullptr || block->last_lent < oldest->last_lent)) oldest = block.get();
  }
  if (oldest != nullptr) drop(*oldest);
  return oldest != nullptr;
}

void LentMemory::drop_all_idle() {
  while (drop_oldest_idle()) {
  }
}

void LentMemory::drop(Block& block) noexcept {
  if (block.is_pinned) queues_->unpin(block.memory->data());
  num_bytes_ -= block.memory->num_bytes();
  std::erase_if(blocks_, [&](const auto& each) { return each.get() == &block; });
}

/// A program needs the bytes of this block. First those go that nobody misses.
void LentMemory::give_back(const Block* block) {
  const std::lock_guard lock(mutex_);
  drop_all_idle();
  for (const auto& each : blocks_) {
    if (each.get() == block) each->hold.reset();
  }
}

void LentMemory::take_back(Block& block) noexcept {
  const std::lock_guard lock(mutex_);
  block.is_lent = false;
  if (closed_ || block.hold == nullptr) drop(block);
}

}  // namespace sectionflow
