#include "data/batch_memory.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

namespace sectionflow {
namespace {

constexpr std::size_t kAlignment = 64;

std::shared_ptr<std::byte[]> own_bytes(std::size_t num_bytes) {
  constexpr std::align_val_t kAligned{kAlignment};
  auto* bytes = static_cast<std::byte*>(::operator new[](std::max<std::size_t>(num_bytes, 1), kAligned));
  return {bytes, [](std::byte* begin) { ::operator delete[](begin, kAligned); }};
}

}  // namespace

HostTensor unfilled_tensor(const TensorType& type, BatchMemory* memory) {
  const std::size_t num_bytes = type.bytes();
  auto bytes = memory != nullptr && num_bytes > 0 ? memory->allocate(num_bytes, kAlignment) : nullptr;
  return {type, bytes != nullptr ? std::move(bytes) : own_bytes(num_bytes)};
}

}  // namespace sectionflow
