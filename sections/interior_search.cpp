#include "sections/interior_search.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/bytes.h"
#include "graph/ops/basic.h"
#include "swap/simulate.h"

namespace sectionflow {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Copies beside the compute team are hidden for the most part, but not for nothing.
constexpr double kCostOfHiddenCopy = 0.15;
/// Stretches of time into which a cycle is cut while choosing.
constexpr std::size_t kMostMoments = 256;
/// Drafts of a search.
constexpr int kTrials = 6;

/// A way to free a tensor's bytes for a while.
struct Escape {
  double seconds = kNever;
  std::size_t first = 0, last = 0;  ///< moments, the last not included
};

/// A tensor that waits on the device from the forward pass to a backward run, and may do otherwise.
struct Candidate {
  std::vector<Value> names{};
  std::size_t bytes = 0;
  Escape recompute{}, travel{};
};

/// What becomes of the candidates.
struct Choice {
  std::set<Value> dropped;     ///< computed again
  std::set<Value> travelling;  ///< in host memory in between
};

class InteriorSearch {
 public:
  InteriorSearch(PlanningTools& tools, const CycleRequest& request, const CyclePolicies& policies)
      : tools_(tools),
        policies_(policies),
        all_(request),
        none_(request),
        profile_(policies.profile != nullptr ? *policies.profile : Profile::nominal()),
        times_(tools, profile_) {
    for (SectionIndex k = 0; k < static_cast<SectionIndex>(policies.sections.size()); ++k) {
      if (policies.of(k).interior == InteriorPolicy::automatic) all_.keeps_interior.insert(k);
    }
  }

  Script best() {
    const CycleScript everything = write_section_schedule(tools_.graph(), all_);
    const CycleScript least = write_section_schedule(tools_.graph(), none_);
    const bool whole_fits = try_script(everything.script, all_, {}, true);
    if (!whole_fits) {
      const bool smallest_fits = try_script(least.script, none_, {}, false);
      if (smallest_fits) {
        find_candidates(everything, least);
        // Where nothing travels the second search would be the first once more.
        if (search(everything, true)) search(everything, false);
      }
    }
    tools_.predicted_seconds = best_.seconds;
    for (std::string& note : best_.notes) tools_.notes.push_back(std::move(note));
    return std::move(best_.script);
  }

 private:
  struct Result {
    Script script{};
    std::vector<std::string> notes{};
    bool fits = false;
    std::size_t device_peak_bytes = 0;
    double seconds = kNever;

    bool is_better_than(const Result& other) const {
      if (fits != other.fits) return fits;
      return fits ? seconds < other.seconds : device_peak_bytes < other.device_peak_bytes;
    }
  };

  /// Whether a script fits with its rests; the best so far is remembered.
  bool try_script(const Script& script, const CycleRequest& request, const std::set<Value>& travelling,
                  bool only_forced) {
    const std::vector<std::string> notes = tools_.notes;
    Result result{.script = with_rests(script, tools_, request, policies_, travelling, only_forced)};
    result.notes.assign(tools_.notes.begin() + static_cast<std::ptrdiff_t>(notes.size()), tools_.notes.end());
    tools_.notes = notes;
    Draft draft = tools_.draft(result.script);
    result.fits = draft.fits;
    result.device_peak_bytes = draft.device_peak_bytes;
    result.seconds = predict(draft, times_).seconds;
    if (best_.device_peak_bytes == 0 || result.is_better_than(best_)) best_ = std::move(result);
    return draft.fits;
  }

  /// Looks for the choice that leaves as much on the device as will fit, with or without tensors that travel. Whether
  /// any choice had tensors travel.
  bool search(const CycleScript& everything, bool may_travel) {
    const std::size_t persistent = round_up(tools_.variables().end_bytes);
    bool travels = false;
    if (tools_.budgets().device <= persistent) return travels;
    double low = 0, high = 1;
    double share = 1;  // of the room behind the variables; plans are not always as low as the bytes that live
    for (int trial = 0; trial < kTrials; ++trial) {
      const auto room = static_cast<double>(tools_.budgets().device - persistent) * share;
      const Choice choice = choose(room, may_travel);
      travels = travels || !choice.travelling.empty();
      const bool fits = try_choice(everything, choice);
      if (fits && share == 1) break;
      (fits ? low : high) = share;
      share = (low + high) / 2;
    }
    return travels;
  }

  /// Whether a cycle of that choice fits.
  bool try_choice(const CycleScript& everything, const Choice& choice) {
    CycleRequest request = none_;
    for (const Value& value : everything.kept) {
      const bool may_stay = !choice.dropped.contains(value);
      if (may_stay) request.kept_interior.insert(value);
    }
    const CycleScript cycle = write_section_schedule(tools_.graph(), request);
    return try_script(cycle.script, request, choice.travelling, true);
  }

  // ---- What may be chosen.

  void find_candidates(const CycleScript& everything, const CycleScript& least) {
    const Draft draft = tools_.draft(everything.script);
    measure_nodes(draft, least);
    const CycleView view(everything.script, tools_.graph(), all_.groups);
    const std::set<Value> nothing;
    const RestRules rules(view, policies_, nothing);
    count_live_bytes(draft);
    const auto moment_of_line = [&](int line) {
      return moment_of(draft.schedule.step_of_line[static_cast<std::size_t>(line)]);
    };
    for (const IdleStretch& stretch : idle_stretches(draft)) {
      const Value tensor = view.tensor_of(stretch.value);
      if (!rules.crosses(stretch) || comes_from_home(tensor.node())) continue;
      Candidate candidate{.names = view.names_of(tensor), .bytes = round_up(stretch.bytes)};
      const std::size_t begin = moment_of_line(stretch.begin) + 1;
      const int back = view.runs()[static_cast<std::size_t>(view.run_of(stretch.end))].first_line;
      const double seconds = recompute_seconds(candidate.names, everything, least);
      if (seconds < kNever) candidate.recompute = {seconds, begin, moment_of_line(back)};
      if (rules.placement(stretch) == Placement::automatic) {
        const int earliest = std::min(rules.earliest_return(stretch), stretch.end);
        candidate.travel = {travel_seconds(stretch.bytes), begin, moment_of_line(earliest)};
      }
      if (seconds < kNever || candidate.travel.seconds < kNever) candidates_.push_back(std::move(candidate));
    }
  }

  /// How long each node takes to be computed again; the first time where it never is.
  void measure_nodes(const Draft& of_everything, const CycleScript& least) {
    const Draft of_least = tools_.draft(least.script);
    for (const Draft* draft : {&of_everything, &of_least}) {
      const auto seconds = times_.of(draft->schedule);
      for (std::size_t i = 0; i < seconds.size(); ++i) {
        const Step& step = draft->schedule.steps[i];
        if (step.kind == StepKind::compute) node_seconds_[step.node] = seconds[i];
      }
    }
  }

  /// What it takes to compute a tensor again while all others of the interior stay; kNever if it cannot be.
  double recompute_seconds(const std::vector<Value>& names, const CycleScript& everything,
                           const CycleScript& least) const {
    std::set<Value> kept = everything.kept;
    bool is_interior = false;
    for (const Value& name : names) {
      if (least.kept.contains(name)) return kNever;
      is_interior = kept.erase(name) > 0 || is_interior;
    }
    if (!is_interior) return kNever;
    double seconds = 0;
    std::set<NodeId> again;
    std::vector<Value> pending = names;
    while (!pending.empty()) {
      const Value value = pending.back();
      pending.pop_back();
      const NodeId id = value.node().id();
      if (is_variable(value) || comes_from_home(value.node()) || kept.contains(value) || !again.insert(id).second)
        continue;
      const auto known = node_seconds_.find(id);
      if (known != node_seconds_.end()) seconds += known->second;
      for (const Value& input : tools_.graph().reads(id)) pending.push_back(input);
    }
    return seconds;
  }

  double travel_seconds(std::size_t bytes) const {
    const double seconds = times_.transfer(StepKind::copy_out, bytes) + times_.transfer(StepKind::copy_in, bytes);
    return tools_.carrier() == CopyCarrier::threads ? seconds * kCostOfHiddenCopy : seconds;
  }

  // ---- Choosing.

  std::size_t moment_of(StepIndex step) const { return static_cast<std::size_t>(step) / steps_a_moment_; }

  /// The most bytes alive in each moment of the cycle in which everything stays.
  void count_live_bytes(const Draft& draft) {
    const std::size_t num_steps = draft.schedule.steps.size();
    steps_a_moment_ = num_steps / kMostMoments + 1;
    std::vector<double> change(num_steps + 1, 0);
    for (const Storage& storage : draft.storage.storages) {
      if (storage.tier != Tier::device) continue;
      change[static_cast<std::size_t>(storage.life.first)] += static_cast<double>(round_up(storage.bytes));
      change[static_cast<std::size_t>(storage.life.last) + 1] -= static_cast<double>(round_up(storage.bytes));
    }
    live_.assign(num_steps / steps_a_moment_ + 1, 0);
    double now = 0;
    for (std::size_t step = 0; step < num_steps; ++step) {
      now += change[step];
      live_[step / steps_a_moment_] = std::max(live_[step / steps_a_moment_], now);
    }
  }

  /// Frees tensors one after the other, always what takes the least time for the bytes that are too many, until no
  /// moment has more than `room` alive or nothing helps any more.
  Choice choose(double room, bool may_travel) const {
    Choice choice;
    std::vector<double> live = live_;
    std::vector<bool> gone(candidates_.size(), false);
    std::size_t host_bytes = 0;
    while (true) {
      double best_rate = 0;
      std::size_t best = 0;
      bool best_travels = false;
      for (std::size_t i = 0; i < candidates_.size(); ++i) {
        if (gone[i]) continue;
        const Candidate& candidate = candidates_[i];
        const bool has_place = may_travel && host_bytes + candidate.bytes <= tools_.budgets().host;
        for (bool travels : {false, true}) {
          const Escape& escape = travels ? candidate.travel : candidate.recompute;
          if (escape.seconds == kNever || (travels && !has_place)) continue;
          const double rate = relief(live, escape, candidate.bytes, room) / (escape.seconds + 1e-9);
          if (rate <= best_rate) continue;
          best_rate = rate;
          best = i;
          best_travels = travels;
        }
      }
      if (best_rate == 0) return choice;
      const Candidate& candidate = candidates_[best];
      const Escape& escape = best_travels ? candidate.travel : candidate.recompute;
      gone[best] = true;
      for (std::size_t moment = escape.first; moment < escape.last; ++moment) {
        live[moment] -= static_cast<double>(candidate.bytes);
      }
      if (best_travels) host_bytes += candidate.bytes;
      (best_travels ? choice.travelling : choice.dropped).insert(candidate.names.begin(), candidate.names.end());
    }
  }

  /// By how much what is too much gets less, summed over the moments.
  static double relief(const std::vector<double>& live, const Escape& escape, std::size_t bytes, double room) {
    double sum = 0;
    for (std::size_t moment = escape.first; moment < escape.last; ++moment) {
      sum += std::clamp(live[moment] - room, 0.0, static_cast<double>(bytes));
    }
    return sum;
  }

  PlanningTools& tools_;
  const CyclePolicies& policies_;
  CycleRequest all_, none_;  // with all automatic interiors kept, and with none
  std::map<NodeId, double> node_seconds_;
  std::vector<Candidate> candidates_;
  std::vector<double> live_;  // by moment
  std::size_t steps_a_moment_ = 1;
  Profile profile_;
  StepTimes times_;
  Result best_;
};

}  // namespace

Script search_interior(PlanningTools& tools, const CycleRequest& request, const CyclePolicies& policies) {
  return InteriorSearch(tools, request, policies).best();
}

}  // namespace sectionflow
