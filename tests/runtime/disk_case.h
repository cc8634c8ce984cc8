#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "runtime/disk_store.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {

/// Gives memory that begins at a page, as buffers of the host pool do.
template <class T>
struct PageAllocator {
  using value_type = T;
  PageAllocator() = default;
  template <class U>
  PageAllocator(const PageAllocator<U>&) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(kPageBytes)));
  }
  void deallocate(T* pointer, std::size_t) { ::operator delete(pointer, std::align_val_t(kPageBytes)); }
  friend bool operator==(const PageAllocator&, const PageAllocator&) { return true; }
};
using Bytes = std::vector<std::byte, PageAllocator<std::byte>>;

inline Bytes random_bytes(std::size_t num_bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(num_bytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

inline std::string name_of(const BlockLabel& label) {
  return text_of("layer_", label.tensor);
}

inline DiskStoreOptions options_in(const TemporaryFolder& folder, std::size_t num_bytes, std::size_t num_blocks = 8) {
  return {.folder = folder.path().string(), .num_bytes = num_bytes, .num_blocks = num_blocks, .name_of = name_of};
}

/// The four ways of carrying bytes; those that the machine lacks are the plain one.
struct Way {
  const char* name;
  bool uring, direct;

  friend void PrintTo(const Way& way, std::ostream* stream) { *stream << way.name; }
};
class EveryWay : public testing::TestWithParam<Way> {
 protected:
  DiskStoreOptions options(std::size_t num_bytes, std::size_t num_blocks = 8) const {
    DiskStoreOptions options = options_in(folder_, num_bytes, num_blocks);
    options.calls.try_uring = GetParam().uring;
    options.calls.try_direct = GetParam().direct;
    return options;
  }
  TemporaryFolder folder_;
};
/// INSTANTIATE_TEST_SUITE_P(EveryWay, <class that inherits EveryWay>, every_way(), way_name).
inline auto every_way() {
  return testing::Values(Way{"Plain", false, false}, Way{"Direct", false, true}, Way{"Uring", true, false},
                         Way{"UringAndDirect", true, true});
}
inline std::string way_name(const testing::TestParamInfo<Way>& info) {
  return info.param.name;
}

}  // namespace sectionflow
