#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>

#include "data/source.h"

namespace sectionflow::testing_support {

/// Batch memory that is full of 0xA5 whenever it is given, and counts what is out. Every `refuses`-th call gives
/// nothing; 0: none does. Threads: any.
class CountedMemory final : public BatchMemory {
 public:
  explicit CountedMemory(int refuses = 0) : refuses_(refuses) {}

  std::shared_ptr<std::byte[]> allocate(std::size_t num_bytes, std::size_t alignment) override {
    const int call = ++counts_->calls;
    if (refuses_ > 0 && call % refuses_ == 0) return nullptr;
    auto* bytes = static_cast<std::byte*>(::operator new[](num_bytes, std::align_val_t{alignment}));
    std::memset(bytes, 0xA5, num_bytes);
    ++counts_->out;
    return {bytes, [counts = counts_, num_bytes, alignment](std::byte* given) {
              // Whoever still reads it reads this.
              std::memset(given, 0x5A, num_bytes);
              ::operator delete[](given, std::align_val_t{alignment});
              --counts->out;
            }};
  }

  int calls() const { return counts_->calls; }
  /// Pieces that somebody has.
  int out() const { return counts_->out; }

 private:
  struct Counts {
    std::atomic<int> calls = 0, out = 0;
  };
  const int refuses_;
  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

}  // namespace sectionflow::testing_support
