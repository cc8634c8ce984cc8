#include "runtime/host_hold.h"

#include <algorithm>
#include <utility>

namespace sectionflow {

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

std::shared_ptr<HostHold> HostHolds::hold(std::size_t num_bytes, std::function<void()> give_back) {
  const std::lock_guard lock(mutex_);
  std::erase_if(holds_, [](const auto& each) { return each.expired(); });
  const std::size_t taken = programs_bytes_ + count();
  if (taken > budget_bytes_ || num_bytes > budget_bytes_ - taken) return nullptr;
  auto hold = std::make_shared<HostHold>(HostHold{num_bytes, std::move(give_back)});
  holds_.push_back(hold);
  return hold;
}

void HostHolds::make_place_for(std::size_t peak_bytes) {
  std::unique_lock lock(mutex_);
  programs_bytes_ = std::max(programs_bytes_, peak_bytes);
  const auto is_enough = [&] {
    const std::size_t held = count();
    return held == 0 || (held <= budget_bytes_ && programs_bytes_ <= budget_bytes_ - held);
  };
  // What is granted meanwhile fits: programs_bytes_ knows of the program already.
  const auto holds = is_enough() ? std::vector<std::weak_ptr<HostHold>>() : holds_;
  for (std::size_t i = 0; i < holds.size() && !is_enough(); ++i) {
    std::function<void()> give_back;
    if (const auto hold = holds[i].lock()) give_back = hold->give_back;
    // Without the lock: whoever gives back may be asking for a hold.
    lock.unlock();
    if (give_back) give_back();
    give_back = nullptr;
    lock.lock();
  }
  std::erase_if(holds_, [](const auto& each) { return each.expired(); });
}

}  // namespace sectionflow
