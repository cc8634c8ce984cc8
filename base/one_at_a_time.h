#pragma once

#include <atomic>
#include <string_view>
#include <thread>

#include "base/export.h"

namespace SF_API sectionflow {

/// Guards an object that one thread at a time may use: a second thread that comes while a first is inside is refused
/// before it touches anything. The same thread may enter again, and another may once the first has left.
class OneAtATime {
 public:
  /// Leaves when it ends.
  class Entry {
   public:
    explicit Entry(std::atomic<std::thread::id>* owner) : owner_(owner) {}
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() {
      if (owner_ != nullptr) owner_->store(std::thread::id(), std::memory_order_release);
    }

   private:
    std::atomic<std::thread::id>* owner_;  // nullptr when the thread was inside before
  };

  /// `object` is for the message: "the session". Throws: ArgumentError (SF-E012).
  [[nodiscard]] Entry enter(std::string_view object) {
    const std::thread::id self = std::this_thread::get_id();
    std::thread::id inside;
    if (owner_.compare_exchange_strong(inside, self, std::memory_order_acquire)) return Entry(&owner_);
    if (inside != self) refuse(object, inside, self);
    return Entry(nullptr);
  }

 private:
  [[noreturn]] static void refuse(std::string_view object, std::thread::id inside, std::thread::id self);

  std::atomic<std::thread::id> owner_{};
};

}  // namespace sectionflow
