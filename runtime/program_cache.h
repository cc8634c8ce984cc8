#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/export.h"
#include "runtime/executable.h"

namespace SF_API sectionflow {

/// Host memory that a program takes: its steps, buffers, pointers and kernels, and what libraries hold for these as far
/// as they tell (Kernel::library_bytes).
std::size_t program_bytes(const Executable& program);

/// Compiled programs by key. Where they come to more bytes than allowed, those go whose last use is longest ago; the
/// spared ones, of whom somebody still has the address, stay.
class ProgramCache {
 public:
  /// Programs that must stay; null pointers are nobody's.
  using Spared = std::initializer_list<const Program*>;

  /// Room for so many bytes, by program_bytes.
  explicit ProgramCache(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// The program of that key, from now on the latest used; nullptr when there is none.
  Executable* find(std::string_view key);
  /// Takes a new program, in the place of one of the same key, and makes room. Programs of another generation of the
  /// graph go too: no key leads to them any more.
  Executable& insert(std::string key, std::uint64_t generation, std::unique_ptr<Executable> program, Spared spared);
  /// Counts a program anew that has grown, since it was first executed, and makes room.
  void count_again(Executable& program, Spared spared);
  /// Drops all of them.
  void clear();
  /// All programs for those of another cache, which has the same limit.
  void swap(ProgramCache& other) noexcept;

  /// Those that are there, and their bytes.
  std::int64_t num_programs() const { return static_cast<std::int64_t>(by_key_.size()); }
  std::size_t num_bytes() const { return num_bytes_; }
  /// How many went to make room since this was last asked.
  std::int64_t take_evicted() { return std::exchange(num_evicted_, 0); }

 private:
  struct Entry {
    std::string key;
    std::uint64_t generation = 0;
    std::unique_ptr<Executable> program;
    std::size_t bytes = 0;
  };
  using Entries = std::list<Entry>;

  void drop(Entries::iterator entry);
  void evict(Spared spared);

  std::size_t most_bytes_;
  std::size_t num_bytes_ = 0;
  std::int64_t num_evicted_ = 0;
  std::uint64_t generation_ = 0;                                    // of the latest insert
  Entries entries_;                                                 // the latest used first
  std::unordered_map<std::string_view, Entries::iterator> by_key_;  // views of the entries' keys
};

}  // namespace sectionflow
