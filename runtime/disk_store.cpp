#include "runtime/disk_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow {

DiskStore::DiskStore(DiskStoreOptions options)
    : options_(std::move(options)),
      file_(options_.folder, options_.num_bytes, options_.calls),
      out_(file_, options_.calls),
      in_(file_, options_.calls),
      blocks_(options_.num_blocks) {}

void DiskStore::write(int block, std::size_t offset, std::span<const std::byte> bytes, const BlockLabel& label) {
  Block& known = block_at(block, offset, bytes.size());
  known.is_written = false;
  BlockChecksum checksum(label);
  DiskOutcome outcome;
  {
    const std::lock_guard lock(out_.mutex);
    // Before the bytes, so that those of a write that fails are counted, too.
    std::size_t highest = high_water();
    while (highest < offset + bytes.size() &&
           !high_water_.compare_exchange_weak(highest, offset + bytes.size(), std::memory_order_relaxed)) {
    }
    outcome = out_.queue.write(offset, bytes.data(), bytes.size(), checksum);
  }
  known = {offset, bytes.size(), checksum.value(), label, outcome.ok(), !outcome.ok()};
  if (!outcome.ok()) refuse("writing", outcome, label, offset, bytes.size());
}

void DiskStore::read(int block, std::size_t offset, std::span<std::byte> bytes, const BlockLabel& label) {
  const Block& known = block_at(block, offset, bytes.size());
  if (known.is_lost) refuse_damaged(label, offset, bytes.size(), "its bytes could not be written");
  SF_CHECK(known.is_written && known.offset == offset && known.num_bytes == bytes.size(), InternalError, "disk: block ",
           block, " is read as ", place_text(label, offset, bytes.size()), ", and holds ",
           known.is_written ? place_text(known.label, known.offset, known.num_bytes) : std::string("nothing"));
  BlockChecksum checksum(label);
  DiskOutcome outcome;
  {
    const std::lock_guard lock(in_.mutex);
    outcome = in_.queue.read(offset, bytes.data(), bytes.size(), checksum);
  }
  if (outcome.error != 0) refuse("reading", outcome, label, offset, bytes.size());
  if (!outcome.file_ended && checksum.value() == known.checksum) return;
  const std::string cause =
      outcome.file_ended ? text_of("the file has become shorter: it ends at byte ", outcome.offset)
      : known.label == label
          ? std::string("the checksum of its bytes is another")
          : text_of("the bytes are those of ", place_text(known.label, known.offset, known.num_bytes));
  refuse_damaged(label, offset, bytes.size(), cause);
}

DiskStore::Block& DiskStore::block_at(int block, std::size_t offset, std::size_t num_bytes) {
  std::vector<Block>& blocks = block < 0 ? homes_ : blocks_;
  const auto place = static_cast<std::size_t>(block < 0 ? -1 - block : block);
  SF_CHECK(place < blocks.size(), InternalError, "disk: there is no block ", block, " of ", blocks.size());
  SF_CHECK(offset <= this->num_bytes() && num_bytes <= this->num_bytes() - offset, InternalError, "disk: block ", block,
           " takes ", num_bytes, " bytes at byte ", offset, " of a file of ", this->num_bytes());
  return blocks[place];
}

std::string DiskStore::place_text(const BlockLabel& label, std::size_t offset, std::size_t num_bytes) const {
  const std::string name = options_.name_of ? options_.name_of(label) : text_of(label.tensor);
  const std::string section = label.section >= 0 ? text_of(" of section ", label.section) : std::string();
  const bool is_variable = label.cycle == BlockLabel::kAnyCycle;
  return text_of(is_variable ? "variable '" : "tensor '", name, "'", section,
                 is_variable ? "" : text_of(" in cycle ", label.cycle), " (", bytes_text(num_bytes), " at byte ",
                 offset, " of the swap file in '", folder(), "')");
}

void DiskStore::refuse_damaged(const BlockLabel& label, std::size_t offset, std::size_t num_bytes,
                               const std::string& cause) const {
  throw DataError(error_text_of("disk: ", place_text(label, offset, num_bytes), " is damaged: ", cause,
                                hint("look at the disk, or take another swap_directory")),
                  ErrorCode::swap_damaged);
}

void DiskStore::refuse(const char* verb, const DiskOutcome& outcome, const BlockLabel& label, std::size_t offset,
                       std::size_t num_bytes) const {
  throw DeviceError(
      error_text_of("disk: ", verb, " ", place_text(label, offset, num_bytes), " has failed at byte ", outcome.offset,
                    ": ", std::strerror(outcome.error), hint("make space there, or take another swap_directory")),
      ErrorCode::disk_io);
}

}  // namespace sectionflow
