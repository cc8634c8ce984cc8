#include "sections/cut_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "sections/cut_problem.h"
#include "swap/simulate.h"

namespace sectionflow {
namespace {

using planning::Borders;

/// Cuts that are drafted beside the first ones, where moving a border may make the fullest section smaller.
constexpr int kMostMoves = 96;
/// Shares by which a cut's peak may be estimated too high.
constexpr double kSlacks[] = {0, 0.01, 0.02, 0.04, 0.06, 0.09, 0.12, 0.16};
/// Capacities for which cuts are looked for, each lower than the one before.
constexpr int kRungs = 48;
/// Of equal parts by operations, which a budget chooses among as well, the most.
constexpr int kMostEqualParts = 32;

class CutSearch {
 public:
  CutSearch(Graph& graph, PlanningTools& tools, const CutRequest& request)
      : graph_(graph),
        tools_(tools),
        request_(request),
        profile_(request.profile != nullptr ? *request.profile : nominal_),
        times_(tools, profile_) {}

  FoundCut lowest(int sections) {
    const FoundCut equal = of(planning::equal_parts(request_.num_places, sections));
    if (sections == 1) return equal;
    FoundCut best = equal;
    if (sections > static_cast<int>(cutter().places().size()) + 1) return improved(std::move(best));
    for (const double slack : kSlacks) take_lower(of(cutter().lowest_peak(sections, slack)), best);
    return improved(std::move(best));
  }

  FoundCut fitting() {
    const FoundCut whole = of({});
    if (whole.fits) return whole;
    FoundCut best = whole;
    std::vector<std::pair<double, Borders>> cuts;
    for (const Borders& borders : ladder()) {
      if (cutter().peak_of(borders) <= estimated_capacity()) cuts.emplace_back(seconds_of(borders), borders);
    }
    for (const Borders& borders : equal_cuts()) cuts.emplace_back(seconds_of(borders), borders);
    std::ranges::stable_sort(cuts, {}, &std::pair<double, Borders>::first);
    for (std::size_t i = 0; i < cuts.size() && !best.fits; ++i) take_quicker(of(cuts[i].second), best);
    if (best.fits && best.seconds <= least_improved_seconds()) return best;
    FoundCut lowest = improved(lowest_start(), &best);
    return best.fits ? best : lowest_beside_equal(std::move(lowest));
  }

  FoundCut lowest() { return lowest_beside_equal(improved(lowest_start())); }

 private:
  struct Trial {
    FoundCut cut;
    std::vector<std::size_t> section_bytes;  // alive at the fullest step of each
    /// Of all sections, the fullest first.
    std::vector<std::size_t> sorted() const {
      std::vector<std::size_t> bytes = section_bytes;
      std::sort(bytes.rbegin(), bytes.rend());
      return bytes;
    }
  };

  /// Cuts for a ladder of capacities that does not depend on the budget, the highest first: so a greater budget chooses
  /// among all cuts of a smaller one.
  std::vector<Borders> ladder() {
    const auto top = static_cast<double>(cutter().peak_of({}));
    const auto bottom = static_cast<double>(cutter().peak_of(cutter().lowest_peak()));
    std::vector<Borders> cuts;
    for (int i = 1; i <= kRungs; ++i) {
      const double capacity = std::ceil(top * std::pow(bottom / top, static_cast<double>(i) / kRungs));
      Borders borders;
      if (!cutter().quickest(static_cast<std::int64_t>(capacity), borders)) continue;
      if (cuts.empty() || cuts.back() != borders) cuts.push_back(std::move(borders));
    }
    return cuts;
  }

  /// Whatever the budget is. Their borders are no places of the estimate's.
  std::vector<Borders> equal_cuts() const {
    std::vector<Borders> cuts;
    for (int sections = 2; sections <= std::min(kMostEqualParts, request_.num_places); ++sections)
      cuts.push_back(planning::equal_parts(request_.num_places, sections));
    return cuts;
  }

  FoundCut lowest_beside_equal(FoundCut best) {
    for (const Borders& borders : equal_cuts()) take_lower(of(borders), best);
    return best;
  }

  /// What a cut may be estimated to take that is drafted: an estimate may be too high.
  std::int64_t estimated_capacity() const {
    const std::size_t variables = round_up(tools_.variables().end_bytes);
    const std::size_t capacity = tools_.budgets().device - std::min(tools_.budgets().device, variables);
    return static_cast<std::int64_t>(capacity + capacity / 10);
  }

  /// The cuts that are estimated to take least.
  std::vector<Borders> lowest_cuts() {
    std::vector<Borders> cuts = {cutter().lowest_peak()};
    const std::int64_t most = cutter().peak_of(cuts.front()) + cutter().peak_of(cuts.front()) / 8;
    for (Borders& borders : ladder()) {
      if (cutter().peak_of(borders) <= most) cuts.push_back(std::move(borders));
    }
    return cuts;
  }

  /// Of these the lowest: whatever the budget is, improving begins with it.
  FoundCut lowest_start() {
    const std::vector<Borders> cuts = lowest_cuts();
    FoundCut start = of(cuts.front());
    for (const Borders& borders : cuts) take_lower(of(borders), start);
    return start;
  }

  /// What no cut that improving comes to is quicker than; one that is would be none that takes least memory. Whatever
  /// the budget is: where a cut is as quick, none of a smaller budget is quicker, and improving need not be tried.
  double least_improved_seconds() {
    double quickest = std::numeric_limits<double>::infinity();
    for (const Borders& borders : lowest_cuts()) quickest = std::min(quickest, seconds_of(borders));
    const double whole = of({}).seconds;
    return whole + (quickest - whole) / 2;
  }

  /// As FoundCut::seconds, of a cut that need not be placed in memory.
  double seconds_of(const Borders& borders) {
    const auto known = trials_.find(borders);
    if (known != trials_.end() || tools_.variables().has_homes_off_device()) return of(borders).seconds;
    const auto [seconds, is_new] = seconds_.try_emplace(borders, 0);
    if (is_new) {
      const Schedule schedule = tools_.prepared(list_of(borders));
      seconds->second = simulate(schedule, times_.of(schedule), times_.drags_of(schedule)).seconds;
    }
    return seconds->second;
  }

  const planning::Cutter& cutter() {
    if (!cutter_) {
      const Draft draft = drafted({});
      cutter_.emplace(make_cut_problem(draft, tools_.graph(), request_.place_of, request_.num_places, times_));
    }
    return *cutter_;
  }

  InstructionList list_of(const Borders& borders) {
    graph_.set_groups(groups_of_cut(request_.place_of, borders, request_.first_group));
    return write_section_schedule(tools_.graph(), cycle_of_cut(request_, borders.size() + 1)).list;
  }
  Draft drafted(const Borders& borders) { return tools_.draft(list_of(borders)); }

  const FoundCut& of(const Borders& borders) { return trial(borders).cut; }
  const Trial& trial(const Borders& borders) {
    const auto known = trials_.find(borders);
    if (known != trials_.end()) return known->second;
    Draft draft = drafted(borders);
    Trial made;
    made.cut.borders = borders;
    made.cut.peak_bytes = draft.device_peak_bytes;
    made.cut.fits = draft.fits;
    made.section_bytes = bytes_of_sections(draft, borders.size() + 1);
    made.cut.seconds = predict(draft, times_).seconds;
    return trials_.emplace(borders, std::move(made)).first->second;
  }

  static std::vector<std::size_t> bytes_of_sections(const Draft& draft, std::size_t num_sections) {
    const std::vector<Step>& steps = draft.schedule.steps;
    std::vector<std::size_t> begun(steps.size() + 1, 0), ended(steps.size() + 1, 0), most(num_sections, 0);
    for (const Storage& storage : draft.storage.storages) {
      if (storage.tier != Tier::device) continue;
      begun[static_cast<std::size_t>(storage.life.first)] += round_up(storage.bytes);
      ended[static_cast<std::size_t>(storage.life.last) + 1] += round_up(storage.bytes);
    }
    std::size_t alive = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      alive = alive + begun[i] - ended[i];
      std::size_t& here =
          most[static_cast<std::size_t>(draft.schedule.passes[static_cast<std::size_t>(steps[i].pass)].section)];
      here = std::max(here, alive);
    }
    return most;
  }

  static bool is_lower(const FoundCut& a, const FoundCut& b) {
    return std::pair(a.peak_bytes, a.seconds) < std::pair(b.peak_bytes, b.seconds);
  }
  static void take_lower(const FoundCut& found, FoundCut& best) {
    if (is_lower(found, best)) best = found;
  }
  static void take_quicker(const FoundCut& found, FoundCut& best) {
    if (found.fits && (!best.fits || found.seconds < best.seconds)) best = found;
  }

  /// Moves borders as long as that makes the fullest section smaller, or of those that are as full the next one. Which
  /// cuts are tried depends on nothing but the first one. `quickest`: becomes the quickest of them, where it does not
  /// fit or is slower.
  FoundCut improved(FoundCut best, FoundCut* quickest = nullptr) {
    const double least_seconds = quickest != nullptr ? least_improved_seconds() : 0;
    Borders at = best.borders;
    if (quickest != nullptr) take_quicker(best, *quickest);
    std::set<Borders> tried = {at};
    int moves = 0;
    for (bool changed = true; changed;) {
      changed = false;
      for (const Borders& next : neighbours(at)) {
        if (moves >= kMostMoves) return best;
        if (!tried.insert(next).second) continue;
        ++moves;
        const FoundCut& found = of(next);
        if (found.seconds >= least_seconds) {
          take_lower(found, best);
          if (quickest != nullptr) take_quicker(found, *quickest);
        }
        if (trial(next).sorted() >= trial(at).sorted()) continue;
        at = next;
        changed = true;
        break;
      }
    }
    return best;
  }

  /// The cut with a border moved by so many places of borders; none where it would meet another.
  std::optional<Borders> moved(Borders borders, std::size_t border, int by) {
    const int low = border > 0 ? borders[border - 1] : 0;
    const int high = border + 1 < borders.size() ? borders[border + 1] : request_.num_places;
    const std::optional<int> place = place_beside(borders[border], by);
    if (!place || *place <= low || *place >= high) return std::nullopt;
    borders[border] = *place;
    return borders;
  }

  /// The cut with a border of its fullest section, or one before, moved, and perhaps the one behind it the same way.
  std::vector<Borders> neighbours(const Borders& borders) {
    const std::vector<std::size_t>& bytes = trial(borders).section_bytes;
    const auto section = static_cast<std::size_t>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
    std::vector<Borders> found;
    const auto add = [&](const std::optional<Borders>& cut) {
      if (cut) found.push_back(*cut);
    };
    constexpr int steps[] = {1, 2, 4};
    for (const int step : steps) {
      if (section > 0) add(moved(borders, section - 1, step));
      if (section < borders.size()) add(moved(borders, section, -step));
    }
    // A neighbour that becomes too full hands on what it has got.
    for (const int first : steps) {
      for (const int next : steps) {
        if (section + 1 < borders.size()) {
          const std::optional<Borders> cut = moved(borders, section, -first);
          if (cut) add(moved(*cut, section + 1, -next));
        }
        if (section > 1) {
          const std::optional<Borders> cut = moved(borders, section - 1, first);
          if (cut) add(moved(*cut, section - 2, next));
        }
      }
    }
    // What is kept at the borders before it is there, too.
    for (std::size_t border = std::min(section, borders.size()); border-- > 0;) {
      for (const int step : {-1, 1, -2, 2}) add(moved(borders, border, step));
    }
    return found;
  }

  /// The place of borders so many behind one, or before it.
  std::optional<int> place_beside(int place, int by) {
    const std::vector<int>& places = cutter().places();
    const auto at = std::lower_bound(places.begin(), places.end(), place) - places.begin();
    const bool is_one =
        at < static_cast<std::ptrdiff_t>(places.size()) && places[static_cast<std::size_t>(at)] == place;
    const std::ptrdiff_t to = at + by - (by > 0 && !is_one ? 1 : 0);
    if (to < 0 || to >= static_cast<std::ptrdiff_t>(places.size())) return std::nullopt;
    return places[static_cast<std::size_t>(to)];
  }

  Graph& graph_;
  PlanningTools& tools_;
  const CutRequest& request_;
  const Profile nominal_ = Profile::nominal();
  const Profile& profile_;
  StepTimes times_;
  std::optional<planning::Cutter> cutter_;
  std::map<Borders, Trial> trials_;
  std::map<Borders, double> seconds_;  // of cuts that have not been tried
};

}  // namespace

std::vector<GroupId> groups_of_cut(const std::vector<int>& place_of, const Borders& borders, GroupId first_group) {
  std::vector<GroupId> groups;
  for (int place : place_of) {
    const auto section = std::upper_bound(borders.begin(), borders.end(), place) - borders.begin();
    groups.push_back(place < 0 ? kNoGroup : first_group + static_cast<GroupId>(section));
  }
  return groups;
}

CycleRequest cycle_of_cut(const CutRequest& request, std::size_t num_sections) {
  CycleRequest cycle{.groups = {}, .training = request.training, .fetches = {}, .held = {}};
  for (std::size_t k = 0; k < num_sections; ++k) {
    cycle.groups.push_back(request.first_group + static_cast<GroupId>(k));
    if (request.keeps_interiors) cycle.keeps_interior.insert(static_cast<SectionIndex>(k));
  }
  cycle.fetches = {{request.loss, static_cast<SectionIndex>(num_sections) - 1}};
  return cycle;
}

FoundCut lowest_cut(Graph& graph, PlanningTools& tools, const CutRequest& request, int sections) {
  return CutSearch(graph, tools, request).lowest(sections);
}

FoundCut lowest_cut(Graph& graph, PlanningTools& tools, const CutRequest& request) {
  return CutSearch(graph, tools, request).lowest();
}

FoundCut fitting_cut(Graph& graph, PlanningTools& tools, const CutRequest& request) {
  return CutSearch(graph, tools, request).fitting();
}

}  // namespace sectionflow
