#include "runtime/variable_homes.h"

#include <algorithm>

#include "base/bytes.h"

namespace sectionflow {
namespace {

/// Layouts beside the first, by shares of what may go to the disk.
constexpr std::size_t kShares = 4;

}  // namespace

VariableHomes::VariableHomes(const std::vector<SizedVariable>& variables, std::size_t num_nodes, HomeTiers tiers)
    : layouts_(1) {
  VariableLayout& first = layouts_.front();
  first.offsets.assign(num_nodes, VariableLayout::kAbsent);
  first.host_offsets = first.disk_offsets = first.offsets;
  std::vector<SizedVariable> order = variables;
  std::size_t num_staying = order.size();
  if (tiers == HomeTiers::host_and_disk && !order.empty()) {
    // The last stays the last, whatever its size, so that host memory takes as much as in the order of the nodes.
    const auto staying = std::stable_partition(order.begin(), order.end() - 1,
                                               [](const SizedVariable& each) { return each.bytes < kPageBytes; });
    num_staying = static_cast<std::size_t>(staying - order.begin());
  }
  auto& offsets = tiers == HomeTiers::device ? first.offsets : first.host_offsets;
  std::size_t& end = tiers == HomeTiers::device ? first.end_bytes : first.host_end_bytes;
  for (const SizedVariable& each : order) {
    offsets[static_cast<std::size_t>(each.id)] = round_up(end);
    end = round_up(end) + each.bytes;
  }
  if (tiers == HomeTiers::host_and_disk) add_disk_layouts(order, num_staying);
}

/// `order`: as they lie in host memory, those that stay there first.
void VariableHomes::add_disk_layouts(const std::vector<SizedVariable>& order, std::size_t num_staying) {
  const auto page_bytes = [](const SizedVariable& each) { return round_up(each.bytes, alignment_of(Tier::disk)); };
  std::size_t total = 0, gone = 0, left = order.size();
  for (std::size_t i = num_staying; i < order.size(); ++i) total += page_bytes(order[i]);
  for (std::size_t share = 1; share <= kShares; ++share) {
    VariableLayout layout = layouts_.back();
    const std::size_t before = left;
    for (; left > num_staying && gone * kShares < total * share; --left) {
      const SizedVariable& next = order[left - 1];
      const auto id = static_cast<std::size_t>(next.id);
      layout.host_offsets[id] = VariableLayout::kAbsent;
      layout.disk_offsets[id] = gone;
      layout.disk_end_bytes = gone + next.bytes;
      gone += page_bytes(next);
    }
    if (left == before) continue;
    layout.host_end_bytes =
        left == 0 ? 0 : layout.host_offsets[static_cast<std::size_t>(order[left - 1].id)] + order[left - 1].bytes;
    layouts_.push_back(std::move(layout));
  }
}

void VariableHomes::meet_graph(std::size_t num_known, std::size_t num_nodes) {
  for (VariableLayout& layout : layouts_) {
    for (auto* offsets : {&layout.offsets, &layout.host_offsets, &layout.disk_offsets}) {
      if (offsets->size() > num_known) offsets->resize(num_known);
      offsets->resize(num_nodes, VariableLayout::kAbsent);
    }
  }
}

}  // namespace sectionflow
