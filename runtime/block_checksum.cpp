#include "runtime/block_checksum.h"

#include <array>
#include <new>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sectionflow {
namespace {

XXH3_state_t* state_in(std::byte* bytes) {
  return std::launder(reinterpret_cast<XXH3_state_t*>(bytes));
}

}  // namespace

BlockChecksum::BlockChecksum(const BlockLabel& label) {
  static_assert(sizeof(XXH3_state_t) <= kStateBytes && alignof(XXH3_state_t) <= 64);
  XXH3_64bits_reset(new (state_) XXH3_state_t);
  const std::array<std::uint64_t, 3> words = {label.tensor, static_cast<std::uint64_t>(label.section), label.cycle};
  XXH3_64bits_update(state_in(state_), words.data(), sizeof(words));
}

void BlockChecksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_in(state_), bytes.data(), bytes.size());
}

std::uint64_t BlockChecksum::value() const {
  return XXH3_64bits_digest(state_in(const_cast<std::byte*>(state_)));
}

}  // namespace sectionflow
