#include "runtime/host_hold.h"

#include <algorithm>
#include <utility>

namespace sectionflow {
namespace {

/// Lets go of it at once: as long as somebody has it, it counts.
bool is_idle(const std::weak_ptr<HostHold>& hold) {
  const auto locked = hold.lock();
  return locked != nullptr && locked->is_idle;
}

}  // namespace

std::size_t HostHolds::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return count();
}

std::size_t HostHolds::count() const {
  std::size_t bytes = 0;
  for (const auto& each : holds_) {
    if (const auto hold = each.lock()) bytes += hold->num_bytes;
  }
  return bytes;
}

std::shared_ptr<HostHold> HostHolds::hold_free(std::size_t num_bytes, std::function<void()> give_back) {
  const std::lock_guard lock(mutex_);
  std::erase_if(holds_, [](const auto& each) { return each.expired(); });
  const std::size_t taken = programs_bytes_ + count();
  if (taken > budget_bytes_ || num_bytes > budget_bytes_ - taken) return nullptr;
  const std::shared_ptr<HostHold> hold(new HostHold{num_bytes, std::move(give_back)});
  holds_.push_back(hold);
  return hold;
}

std::shared_ptr<HostHold> HostHolds::hold(std::size_t num_bytes, const std::function<void()>& give_back) {
  auto hold = hold_free(num_bytes, give_back);
  for (const auto& each : all_holds()) {
    if (hold != nullptr) break;
    if (!is_idle(each)) continue;
    end(each);
    hold = hold_free(num_bytes, give_back);
  }
  return hold;
}

bool HostHolds::has(const HostHold& hold) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(holds_.begin(), holds_.end(), [&](const auto& each) { return each.lock().get() == &hold; });
}

void HostHolds::make_place_for(std::size_t peak_bytes) {
  {
    // What is granted from here on fits beside the program.
    const std::lock_guard lock(mutex_);
    programs_bytes_ = std::max(programs_bytes_, peak_bytes);
  }
  for (const auto& each : all_holds()) {
    const std::size_t held = held_bytes();
    if (held == 0 || (held <= budget_bytes_ && programs_bytes() <= budget_bytes_ - held)) return;
    end(each);
  }
}

std::size_t HostHolds::programs_bytes() const {
  const std::lock_guard lock(mutex_);
  return programs_bytes_;
}

std::vector<std::weak_ptr<HostHold>> HostHolds::all_holds() const {
  const std::lock_guard lock(mutex_);
  return holds_;
}

void HostHolds::end(const std::weak_ptr<HostHold>& hold) {
  std::function<void()> give_back;
  // Not locked as long as it is called, without which it cannot end; nor is the mutex, for which its owner may ask.
  if (const auto locked = hold.lock()) give_back = locked->give_back;
  if (give_back) give_back();
}

}  // namespace sectionflow
