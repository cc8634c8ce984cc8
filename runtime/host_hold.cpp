#include "runtime/host_hold.h"

#include <algorithm>
#include <utility>

namespace sectionflow {

std::size_t HostHolds::held_bytes() const {
  std::size_t bytes = 0;
  for (const auto& each : holds_) {
    if (const auto hold = each.lock()) bytes += hold->num_bytes;
  }
  return bytes;
}

std::shared_ptr<HostHold> HostHolds::hold(std::size_t num_bytes, std::function<void()> give_back) {
  std::erase_if(holds_, [](const auto& each) { return each.expired(); });
  const std::size_t taken = programs_bytes_ + held_bytes();
  if (taken > budget_bytes_ || num_bytes > budget_bytes_ - taken) return nullptr;
  auto hold = std::make_shared<HostHold>(HostHold{num_bytes, std::move(give_back)});
  holds_.push_back(hold);
  return hold;
}

void HostHolds::make_place_for(std::size_t peak_bytes) {
  programs_bytes_ = std::max(programs_bytes_, peak_bytes);
  const auto is_enough = [&] {
    const std::size_t held = held_bytes();
    return held == 0 || (held <= budget_bytes_ && programs_bytes_ <= budget_bytes_ - held);
  };
  for (std::size_t i = 0; i < holds_.size() && !is_enough(); ++i) {
    std::function<void()> give_back;
    if (const auto hold = holds_[i].lock()) give_back = hold->give_back;
    if (give_back) give_back();
  }
  std::erase_if(holds_, [](const auto& each) { return each.expired(); });
}

}  // namespace sectionflow
