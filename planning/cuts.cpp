#include "planning/cuts.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace sectionflow::planning {
namespace {

// With more places of borders than this the work grows more than the cuts improve.
constexpr std::size_t kMostPlaces = 224;
// Ways to come to a border that are gone on from.
constexpr std::size_t kMostWays = 24;
constexpr std::int64_t kNoWay = std::numeric_limits<std::int64_t>::max() / 4;

/// Bytes that cross each border, from 0 to the number of places.
std::vector<std::int64_t> crossing_bytes(const CutProblem& problem) {
  std::vector<std::int64_t> bytes(problem.forward_bytes.size() + 2, 0);
  for (const PlacedValue& value : problem.values) {
    if (value.last_use <= value.made) continue;
    bytes[static_cast<std::size_t>(value.made) + 1] += value.bytes;
    bytes[static_cast<std::size_t>(value.last_use) + 1] -= value.bytes;
  }
  for (std::size_t i = 1; i < bytes.size(); ++i) bytes[i] += bytes[i - 1];
  bytes.pop_back();
  return bytes;
}

/// Of each stretch of borders the one that least crosses.
std::vector<int> thinned(const std::vector<int>& places, const std::vector<std::int64_t>& crossing) {
  if (places.size() <= kMostPlaces) return places;
  std::vector<int> kept;
  for (std::size_t part = 0; part < kMostPlaces; ++part) {
    const auto first = places.begin() + static_cast<std::ptrdiff_t>(part * places.size() / kMostPlaces);
    const auto last = places.begin() + static_cast<std::ptrdiff_t>((part + 1) * places.size() / kMostPlaces);
    kept.push_back(*std::min_element(first, last, [&](int a, int b) {
      return crossing[static_cast<std::size_t>(a)] < crossing[static_cast<std::size_t>(b)];
    }));
  }
  return kept;
}

}  // namespace

Borders equal_parts(int num_places, int sections) {
  Borders borders;
  for (int i = 1; i < sections; ++i) {
    borders.push_back(static_cast<int>(std::int64_t{i} * num_places / sections));
  }
  return borders;
}

Cutter::Cutter(const CutProblem& problem) {
  find_places(problem);
  stretches_.resize(ends_.size() * ends_.size());
  add_borders(problem);
  add_gradients(problem);
  add_recomputation(problem);
}

void Cutter::find_places(const CutProblem& problem) {
  const std::vector<std::int64_t> crossing = crossing_bytes(problem);
  const int num_places = problem.num_places();
  for (int place = 1; place < num_places; ++place) {
    const auto at = static_cast<std::size_t>(place);
    const bool is_low_before = place == 1 || crossing[at] <= crossing[at - 1];
    const bool is_low_behind = place == num_places - 1 || crossing[at] <= crossing[at + 1];
    if (is_low_before && is_low_behind) places_.push_back(place);
  }
  places_ = thinned(places_, crossing);
  ends_ = {0};
  ends_.insert(ends_.end(), places_.begin(), places_.end());
  ends_.push_back(num_places);
}

void Cutter::add_borders(const CutProblem& problem) {
  std::vector<std::int64_t> made(problem.forward_bytes.size() + 1);  // before each place, of what crosses the border
  for (std::size_t to = 1; to + 1 < ends_.size(); ++to) {
    std::fill(made.begin(), made.end(), 0);
    for (const PlacedValue& value : problem.values) {
      if (value.crosses(ends_[to])) made[static_cast<std::size_t>(value.made) + 1] += value.bytes;
    }
    for (std::size_t i = 1; i < made.size(); ++i) made[i] += made[i - 1];
    for (std::size_t from = 0; from < to; ++from) {
      stretches_[from * ends_.size() + to].border =
          made[static_cast<std::size_t>(ends_[to])] - made[static_cast<std::size_t>(ends_[from])];
    }
  }
}

/// What the gradients of a section take.
void Cutter::add_gradients(const CutProblem& problem) {
  const std::size_t num_places = problem.forward_bytes.size();
  std::vector<std::int64_t> for_gradient(num_places);
  for (std::size_t from = 0; from + 1 < ends_.size(); ++from) {
    std::fill(for_gradient.begin(), for_gradient.end(), 0);
    for (const PlacedValue& value : problem.values) {
      if (value.made < ends_[from] || value.first_gradient < 0) continue;
      for_gradient[static_cast<std::size_t>(std::max(value.made, value.first_gradient))] += value.bytes;
    }
    std::int64_t read = 0, highest = 0;
    std::size_t to = from + 1;
    for (auto place = static_cast<std::size_t>(ends_[from]); place < num_places; ++place) {
      read += for_gradient[place];
      highest = std::max(highest, read + problem.gradient_bytes[place]);
      if (static_cast<int>(place) + 1 == ends_[to]) stretches_[from * ends_.size() + to++].peak = highest;
    }
  }
}

/// Which places a section that ends at `end` computes again, whichever its first is.
std::vector<char> Cutter::places_again(const CutProblem& problem, int end) {
  std::vector<char> is_again(problem.forward_bytes.size(), 0), is_kept(is_again), is_read(is_again);
  for (const PlacedValue& value : problem.values) {
    if (value.crosses(end)) {
      is_kept[static_cast<std::size_t>(value.made)] = 1;
    } else if (value.first_gradient >= 0 && value.made < end) {
      is_read[static_cast<std::size_t>(value.made)] = 1;
    }
  }
  for (auto place = static_cast<std::size_t>(end); place-- > 0;) {
    if (is_read[place] == 0 || is_kept[place] != 0) continue;
    is_again[place] = 1;
    for (int input : problem.inputs[place]) is_read[static_cast<std::size_t>(input)] = 1;
  }
  return is_again;
}

/// What it takes to compute sections again, in bytes and seconds; the last, which is not, is run forward once.
void Cutter::add_recomputation(const CutProblem& problem) {
  const std::size_t num_places = problem.forward_bytes.size();
  std::vector<std::int64_t> made(num_places);  // at each place, and waits for a gradient of the section
  for (std::size_t to = 1; to < ends_.size(); ++to) {
    const bool is_last = to + 1 == ends_.size();
    const std::vector<char> is_again = places_again(problem, ends_[to]);
    std::fill(made.begin(), made.end(), 0);
    for (const PlacedValue& value : problem.values) {
      // What only later sections' gradients read is gone by then.
      const bool waits = value.first_gradient >= 0 && value.first_gradient < ends_[to];
      if (waits) made[static_cast<std::size_t>(value.made)] += value.bytes;
    }
    for (std::size_t from = 0; from < to; ++from) {
      Stretch& found = stretches_[from * ends_.size() + to];
      // The gradients of what crosses its end wait meanwhile.
      std::int64_t waiting = found.border;
      const auto end = static_cast<std::size_t>(ends_[to]);
      for (auto place = static_cast<std::size_t>(ends_[from]); place < end; ++place) {
        waiting += made[place];
        if (!is_last && is_again[place] == 0) continue;
        found.peak = std::max(found.peak, waiting + problem.forward_bytes[place]);
        if (!is_last) found.again_seconds += problem.forward_seconds[place];
      }
    }
  }
}

/// Keeps the least at the borders on the way to each, which leaves most for what follows.
bool Cutter::is_within(std::int64_t capacity, int sections, Borders& borders) const {
  const std::size_t num_ends = ends_.size(), last = num_ends - 1;
  const auto num_sections = static_cast<std::size_t>(sections);
  std::vector<std::vector<std::int64_t>> kept(num_sections + 1, std::vector<std::int64_t>(num_ends, kNoWay));
  std::vector<std::vector<std::size_t>> from(num_sections + 1, std::vector<std::size_t>(num_ends, 0));
  kept[0][0] = 0;
  for (std::size_t k = 0; k < num_sections; ++k) {
    const bool ends = k + 1 == num_sections;
    for (std::size_t a = k; a < last; ++a) {
      if (kept[k][a] == kNoWay) continue;
      for (std::size_t b = ends ? last : a + 1; b <= (ends ? last : last - 1); ++b) {
        const Stretch& next = stretch(a, b);
        if (kept[k][a] + next.peak > capacity || kept[k][a] + next.border >= kept[k + 1][b]) continue;
        kept[k + 1][b] = kept[k][a] + next.border;
        from[k + 1][b] = a;
      }
    }
  }
  if (kept[num_sections][last] == kNoWay) return false;
  borders.clear();
  for (std::size_t k = num_sections, at = last; k > 1; --k) {
    at = from[k][at];
    borders.insert(borders.begin(), ends_[at]);
  }
  return true;
}

Borders Cutter::lowest_peak(int sections, double slack) const {
  std::int64_t low = 0, high = 1;
  Borders borders;
  while (!is_within(high, sections, borders)) high *= 2;
  while (high - low > std::max<std::int64_t>(1, high / 4096)) {
    const std::int64_t middle = low + (high - low) / 2;
    (is_within(middle, sections, borders) ? high : low) = middle;
  }
  (void)is_within(high + static_cast<std::int64_t>(slack * static_cast<double>(high)), sections, borders);
  return borders;
}

Borders Cutter::lowest_peak() const {
  std::int64_t low = 0, high = stretch(0, ends_.size() - 1).peak;
  Borders borders;
  while (high - low > std::max<std::int64_t>(1, high / 4096)) {
    const std::int64_t middle = low + (high - low) / 2;
    (quickest(middle, borders) ? high : low) = middle;
  }
  (void)quickest(high, borders);
  return borders;
}

bool Cutter::quickest(std::int64_t capacity, Borders& borders) const {
  /// To a border, in any number of sections.
  struct Way {
    std::int64_t kept = 0;
    double seconds = 0;
    std::size_t from = 0, way = 0;
  };
  const std::size_t last = ends_.size() - 1;
  std::vector<std::vector<Way>> ways(ends_.size());
  ways[0] = {{}};
  for (std::size_t b = 1; b <= last; ++b) {
    std::vector<Way> found;
    for (std::size_t a = 0; a < b; ++a) {
      const Stretch& next = stretch(a, b);
      for (std::size_t i = 0; i < ways[a].size(); ++i) {
        const Way& way = ways[a][i];
        if (way.kept + next.peak > capacity) continue;
        found.push_back({way.kept + next.border, way.seconds + (b < last ? next.again_seconds : 0.0), a, i});
      }
    }
    std::stable_sort(found.begin(), found.end(), [](const Way& x, const Way& y) {
      return std::pair(x.kept, x.seconds) < std::pair(y.kept, y.seconds);
    });
    double least = std::numeric_limits<double>::infinity();
    std::erase_if(found,
                  [&](const Way& way) { return std::exchange(least, std::min(least, way.seconds)) <= way.seconds; });
    // Of too many the first keeps least, and the last takes least time.
    std::vector<Way>& kept = ways[b];
    const std::size_t most = std::min(kMostWays, found.size());
    for (std::size_t i = 0; i < most; ++i) kept.push_back(found[most < 2 ? 0 : i * (found.size() - 1) / (most - 1)]);
  }
  if (ways[last].empty()) return false;
  borders.clear();
  const Way* at = &ways[last].back();
  while (at->from > 0) {
    borders.insert(borders.begin(), ends_[at->from]);
    at = &ways[at->from][at->way];
  }
  return true;
}

/// One a section.
std::vector<const Cutter::Stretch*> Cutter::stretches_of(const Borders& borders) const {
  std::vector<const Stretch*> found;
  std::size_t from = 0;
  const auto add = [&](int end) {
    const auto to = static_cast<std::size_t>(std::lower_bound(ends_.begin(), ends_.end(), end) - ends_.begin());
    found.push_back(&stretch(from, to));
    from = to;
  };
  for (int border : borders) add(border);
  add(ends_.back());
  return found;
}

std::int64_t Cutter::peak_of(const Borders& borders) const {
  std::int64_t kept = 0, peak = 0;
  for (const Stretch* section : stretches_of(borders)) {
    peak = std::max(peak, kept + section->peak);
    kept += section->border;
  }
  return peak;
}

double Cutter::again_seconds_of(const Borders& borders) const {
  const std::vector<const Stretch*> sections = stretches_of(borders);
  double seconds = 0;
  for (std::size_t k = 0; k + 1 < sections.size(); ++k) seconds += sections[k]->again_seconds;
  return seconds;
}

}  // namespace sectionflow::planning
