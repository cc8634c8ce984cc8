#include "schedule/plan_memory.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "schedule/placement.h"

namespace sectionflow {
namespace {

constexpr std::size_t kMostBytes = std::numeric_limits<std::int64_t>::max();

std::string life_text(const Life& life) {
  return text_of("steps ", life.first, " to ", life.last);
}

void check_lives(std::span<const Storage> storages) {
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const Life& life = storages[i].life;
    SF_CHECK(life.first <= life.last, ArgumentError, "[plan_memory] storage ", i, " lives from step ", life.first,
             " to step ", life.last, "; wanted a last step that is not before the first");
  }
}

// Whatever the placement, no end is above the highest fixed end plus all sizes: if that sum fits, everything does.
void check_sizes(std::span<const Storage> storages, std::size_t alignment) {
  std::size_t sum = 0;
  std::size_t highest_fixed = 0;
  const auto check = [&](bool fits, std::size_t i) {
    SF_CHECK(fits, ArgumentError, "[plan_memory] the sizes up to storage ", i, " of ", storages[i].bytes,
             " bytes, with the offsets that are fixed, come to more than 2^63 - 1 bytes; wanted less");
  };
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const std::size_t fixed_offset = storages[i].fixed_offset.value_or(0);
    check(storages[i].bytes <= kMostBytes - alignment && fixed_offset <= kMostBytes, i);
    sum += round_up(storages[i].bytes, alignment);
    highest_fixed = std::max(highest_fixed, fixed_offset);
    check(sum <= kMostBytes && highest_fixed <= kMostBytes - sum, i);
  }
}

void check_fixed_alignment(std::span<const Storage> storages, std::size_t alignment) {
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const std::size_t offset = storages[i].fixed_offset.value_or(0);
    SF_CHECK(offset % alignment == 0, ArgumentError, "[plan_memory] storage ", i, " is fixed at offset ", offset,
             "; wanted a multiple of ", alignment);
  }
}

void check_fixed_pair(std::span<const Storage> storages, std::size_t i, std::size_t j) {
  const Storage& a = storages[i];
  const Storage& b = storages[j];
  const bool apart = *a.fixed_offset + a.bytes <= *b.fixed_offset || *b.fixed_offset + b.bytes <= *a.fixed_offset;
  SF_CHECK(apart || !a.life.overlaps(b.life), ArgumentError, "[plan_memory] storage ", i, " (", a.bytes,
           " bytes fixed at offset ", *a.fixed_offset, ", ", life_text(a.life), ") and storage ", j, " (", b.bytes,
           " bytes fixed at offset ", *b.fixed_offset, ", ", life_text(b.life),
           ") share bytes while both live; wanted fixed places that are apart");
}

void check_fixed_places(std::span<const Storage> storages) {
  std::vector<std::size_t> by_offset;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    if (storages[i].fixed_offset && storages[i].bytes > 0) {
      by_offset.push_back(i);
    }
  }
  std::stable_sort(by_offset.begin(), by_offset.end(),
                   [&](std::size_t a, std::size_t b) { return *storages[a].fixed_offset < *storages[b].fixed_offset; });
  for (std::size_t k = 0; k < by_offset.size(); ++k) {
    const Storage& low = storages[by_offset[k]];
    for (std::size_t m = k + 1; m < by_offset.size(); ++m) {
      if (*storages[by_offset[m]].fixed_offset >= *low.fixed_offset + low.bytes) {
        break;
      }
      check_fixed_pair(storages, by_offset[k], by_offset[m]);
    }
  }
}

// Lives overlap only if one of them covers the begin of the other: those begins are all of time that matters.
std::vector<StepIndex> distinct_begins(std::span<const Storage> storages) {
  std::vector<StepIndex> begins;
  for (const Storage& storage : storages) {
    if (storage.bytes > 0) {
      begins.push_back(storage.life.first);
    }
  }
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  return begins;
}

/// In units of the alignment.
Block block_of(const Storage& storage, const std::vector<StepIndex>& begins, std::size_t alignment) {
  const auto column_after = [&](StepIndex step) {
    return static_cast<int>(std::upper_bound(begins.begin(), begins.end(), step) - begins.begin());
  };
  return {.size = static_cast<std::int64_t>(round_up(storage.bytes, alignment) / alignment),
          .first = column_after(storage.life.first) - 1,
          .last = column_after(storage.life.last) - 1};
}

struct Fullest {
  std::int64_t load = 0;
  int column = 0;
};

Fullest fullest_column(const PlacementProblem& problem) {
  std::vector<std::int64_t> change(problem.num_columns + 1, 0);
  const auto count = [&](const Block& block) {
    change[block.first] += block.size;
    change[block.last + 1] -= block.size;
  };
  std::for_each(problem.blocks.begin(), problem.blocks.end(), count);
  std::for_each(problem.fixed.begin(), problem.fixed.end(), [&](const FixedBlock& fixed) { count(fixed.block); });
  Fullest fullest;
  std::int64_t load = 0;
  for (int column = 0; column < problem.num_columns; ++column) {
    load += change[column];
    if (load > fullest.load) {
      fullest = {load, column};
    }
  }
  return fullest;
}

/// Storages of one tier.
MemoryPlan plan_tier(std::span<const Storage> storages, std::size_t alignment) {
  check_lives(storages);
  check_sizes(storages, alignment);
  check_fixed_alignment(storages, alignment);
  check_fixed_places(storages);

  const std::vector<StepIndex> begins = distinct_begins(storages);
  PlacementProblem problem{.num_columns = static_cast<int>(begins.size()), .blocks = {}, .fixed = {}};
  MemoryPlan plan;
  plan.offsets.assign(storages.size(), 0);
  std::vector<std::size_t> movable;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    if (storages[i].bytes == 0) {
      continue;
    }
    const Block block = block_of(storages[i], begins, alignment);
    if (storages[i].fixed_offset) {
      plan.offsets[i] = *storages[i].fixed_offset;
      problem.fixed.push_back({block, static_cast<std::int64_t>(plan.offsets[i] / alignment)});
    } else {
      movable.push_back(i);
      problem.blocks.push_back(block);
    }
  }

  const Fullest fullest = fullest_column(problem);
  if (fullest.load > 0) {
    plan.lower_bound_bytes = static_cast<std::size_t>(fullest.load) * alignment;
    plan.fullest_step = begins[fullest.column];
  }
  if (!movable.empty()) {
    const BlockOffsets placement = search_placement(problem, fullest.load);
    for (std::size_t i = 0; i < movable.size(); ++i) {
      plan.offsets[movable[i]] = static_cast<std::size_t>(placement.offsets[i]) * alignment;
    }
  }
  for (std::size_t i = 0; i < storages.size(); ++i) {
    plan.peak_bytes = std::max(plan.peak_bytes, plan.offsets[i] + storages[i].bytes);
  }
  return plan;
}

}  // namespace

MemoryPlan plan_memory(std::span<const Storage> storages) {
  const bool on_device =
      std::all_of(storages.begin(), storages.end(), [](const Storage& s) { return s.tier == Tier::device; });
  if (on_device) return plan_tier(storages, alignment_of(Tier::device));
  MemoryPlan plan;
  plan.offsets.assign(storages.size(), 0);
  for (const Tier tier : {Tier::device, Tier::host, Tier::disk}) {
    std::vector<std::size_t> places;
    std::vector<Storage> of_tier;
    for (std::size_t i = 0; i < storages.size(); ++i) {
      if (storages[i].tier != tier) continue;
      places.push_back(i);
      of_tier.push_back(storages[i]);
    }
    const MemoryPlan part = plan_tier(of_tier, alignment_of(tier));
    for (std::size_t k = 0; k < places.size(); ++k) plan.offsets[places[k]] = part.offsets[k];
    TierPeak& peak = tier == Tier::device ? static_cast<TierPeak&>(plan) : tier == Tier::host ? plan.host : plan.disk;
    peak = part;
  }
  return plan;
}

const char* tier_name(Tier tier) {
  switch (tier) {
    case Tier::device:
      return "device memory";
    case Tier::host:
      return "host memory";
    case Tier::disk:
      return "disk";
  }
  return "";
}

}  // namespace sectionflow
