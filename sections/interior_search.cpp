#include "sections/interior_search.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "base/bytes.h"
#include "graph/ops/basic.h"
#include "swap/simulate.h"
#include "swap/step_times.h"

namespace sectionflow {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Copies beside the compute team are hidden for the most part, but not for nothing.
constexpr double kCostOfHiddenCopy = 0.15;
/// Stretches of time into which a cycle is cut while choosing.
constexpr std::size_t kMostMoments = 256;
/// Capacities of the device that are chosen for, in equal steps up to what is alive when everything stays; and of the
/// host, up to what all that may be offloaded takes.
constexpr int kCapacities = 32, kHostCapacities = 4;
/// What sums of the same times differ by.
constexpr double kRounding = 1e-9;

/// A way to free a tensor's bytes for a while.
struct Escape {
  double seconds = kNever;
  std::size_t first = 0, last = 0;  ///< moments, the last not included
};

/// A tensor that waits on the device from the forward pass to a backward run, and may do otherwise.
struct Candidate {
  std::vector<Value> names{};
  std::size_t bytes = 0;
  Escape recompute{}, offload{};
};

/// What becomes of the candidates.
struct Choice {
  std::set<Value> dropped;    ///< computed again
  std::set<Value> offloaded;  ///< in host memory in between
  auto operator<=>(const Choice&) const = default;
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

  /// Capacities depend on the cycle alone, and what is chosen for them does too. A budget takes the best of what the
  /// capacities within it give, as planned for all of it: a larger one has the same and more, and planned for more.
  /// Nothing that might be better is left out: a choice is passed over only where its kernels alone take as long as the
  /// best so far.
  InstructionList best() {
    const CycleInstructions everything = write_section_schedule(tools_.graph(), all_);
    const CycleInstructions least = write_section_schedule(tools_.graph(), none_);
    measure_nodes(everything, least);
    const bool whole_fits = try_instructions(everything.list, all_, {}, true);
    if (!whole_fits || may_help(least_seconds(everything.list) * (1 + kRounding))) {
      const bool smallest_fits = try_instructions(least.list, none_, {}, false);
      if (whole_fits || smallest_fits) {
        find_candidates(everything, least);
        search(everything);
      }
    }
    tools_.predicted_seconds = best_.seconds;
    tools_.least_device_bytes = best_.fits ? 0 : best_.device_peak_bytes;
    for (std::string& note : best_.notes) tools_.notes.push_back(std::move(note));
    return std::move(best_.list);
  }

 private:
  struct Result {
    InstructionList list{};
    std::vector<std::string> notes{};
    bool fits = false;
    std::size_t device_peak_bytes = 0;
    double seconds = kNever;

    bool is_better_than(const Result& other) const {
      if (fits != other.fits) return fits;
      return fits ? seconds < other.seconds : device_peak_bytes < other.device_peak_bytes;
    }
  };

  /// Whether an instruction list fits with its offloads; the best so far is remembered.
  bool try_instructions(const InstructionList& list, const CycleRequest& request, const std::set<Value>& offloaded,
                        bool only_forced) {
    const std::vector<std::string> notes = tools_.notes;
    Result result{.list = with_offloads(list, tools_, request, policies_, offloaded, only_forced)};
    result.notes.assign(tools_.notes.begin() + static_cast<std::ptrdiff_t>(notes.size()), tools_.notes.end());
    tools_.notes = notes;
    Draft draft = tools_.draft(result.list);
    result.fits = draft.fits;
    result.device_peak_bytes =
        draft.fits || tools_.least_device_bytes == 0 ? draft.device_peak_bytes : tools_.least_device_bytes;
    result.seconds = tools_.predicted_seconds;
    if (best_.device_peak_bytes == 0 || result.is_better_than(best_)) best_ = std::move(result);
    return draft.fits;
  }

  /// Tries what is chosen for each capacity, the largest first.
  void search(const CycleInstructions& everything) {
    const std::size_t persistent = round_up(tools_.variables().end_bytes);
    if (tools_.budgets().device <= persistent) return;
    const double most = *std::max_element(live_.begin(), live_.end());
    double most_on_host = 0;
    for (const Candidate& candidate : candidates_) {
      if (candidate.offload.seconds < kNever) most_on_host += static_cast<double>(candidate.bytes);
    }
    std::set<Choice> tried;
    for (int i = kCapacities; i > 0; --i) {
      const double capacity = most * i / kCapacities;
      if (capacity > static_cast<double>(tools_.budgets().device - persistent)) continue;
      for (int j = kHostCapacities; j >= 0; --j) {
        const double host_capacity = most_on_host * j / kHostCapacities;
        if (host_capacity > static_cast<double>(tools_.budgets().host)) continue;
        const Choice choice = choose(capacity, host_capacity);
        if (tried.insert(choice).second) try_choice(everything, choice);
      }
    }
  }

  void try_choice(const CycleInstructions& everything, const Choice& choice) {
    CycleRequest request = none_;
    for (const Value& value : everything.kept) {
      const bool may_stay = !choice.dropped.contains(value);
      if (may_stay) request.kept_interior.insert(value);
    }
    const CycleInstructions cycle = write_section_schedule(tools_.graph(), request);
    if (may_help(least_seconds(cycle.list) * (1 + kRounding)))
      try_instructions(cycle.list, request, choice.offloaded, true);
  }

  bool may_help(double seconds) const { return !best_.fits || seconds < best_.seconds; }

  /// What a cycle takes without any transfers.
  double least_seconds(const InstructionList& list) const {
    double seconds = feed_seconds_;
    for (const Instruction& instruction : list.instructions) {
      const auto known =
          instruction.kind == StepKind::compute ? node_seconds_.find(instruction.node) : node_seconds_.end();
      if (known != node_seconds_.end()) seconds += known->second;
    }
    return seconds;
  }

  // ---- What may be chosen.

  void find_candidates(const CycleInstructions& everything, const CycleInstructions& least) {
    const Draft draft = tools_.draft(everything.list);
    const CycleView view(everything.list, tools_.graph(), all_.groups);
    const std::set<Value> nothing;
    const OffloadRules rules(view, policies_, nothing);
    count_live_bytes(draft);
    const auto moment_of_instruction = [&](int instruction) {
      return moment_of(draft.schedule.step_of_instruction[static_cast<std::size_t>(instruction)]);
    };
    for (const IdleStretch& stretch : idle_stretches(draft)) {
      const Value tensor = view.tensor_of(stretch.value);
      if (!rules.crosses(stretch) || tensor.node().op().is_brought_in()) continue;
      Candidate candidate{.names = view.names_of(tensor), .bytes = round_up(stretch.bytes)};
      const std::size_t begin = moment_of_instruction(stretch.begin) + 1;
      const int back = view.runs()[static_cast<std::size_t>(view.run_of(stretch.end))].first_instruction;
      const double seconds = recompute_seconds(candidate.names, everything, least);
      if (seconds < kNever) candidate.recompute = {seconds, begin, moment_of_instruction(back)};
      if (rules.placement(stretch) == Placement::automatic) {
        const int earliest = std::min(rules.earliest_return(stretch), stretch.end);
        candidate.offload = {transfer_seconds(stretch.bytes), begin, moment_of_instruction(earliest)};
      }
      if (seconds < kNever || candidate.offload.seconds < kNever) candidates_.push_back(std::move(candidate));
    }
  }

  /// How long each node takes, for the first time or again, whichever is shorter; and all feeds and fetches.
  void measure_nodes(const CycleInstructions& everything, const CycleInstructions& least) {
    for (const CycleInstructions* cycle : {&everything, &least}) {
      const Draft draft = tools_.draft(cycle->list);
      const auto seconds = times_.of(draft.schedule);
      for (std::size_t i = 0; i < seconds.size(); ++i) {
        const Step& step = draft.schedule.steps[i];
        const bool once = cycle == &everything && (step.kind == StepKind::feed || step.kind == StepKind::fetch);
        if (once) feed_seconds_ += seconds[i];
        if (step.kind != StepKind::compute) continue;
        const auto [known, is_new] = node_seconds_.emplace(step.node, seconds[i]);
        if (!is_new) known->second = std::min(known->second, seconds[i]);
      }
    }
  }

  /// What it takes to compute a tensor again while all others of the interior stay; kNever if it cannot be.
  double recompute_seconds(const std::vector<Value>& names, const CycleInstructions& everything,
                           const CycleInstructions& least) const {
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
      if (value.node().op().is_given() || kept.contains(value) || !again.insert(id).second) continue;
      const auto known = node_seconds_.find(id);
      if (known != node_seconds_.end()) seconds += known->second;
      for (const Value& input : tools_.graph().reads(id)) pending.push_back(input);
    }
    return seconds;
  }

  double transfer_seconds(std::size_t bytes) const {
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

  /// A way out for a tensor, by what it gains for its time. Gains only fall while others are freed.
  struct Bid {
    double rate = 0;
    std::size_t candidate = 0;
    bool offloads = false;
    bool operator<(const Bid& other) const {
      if (rate != other.rate) return rate < other.rate;
      return std::pair(candidate, offloads) > std::pair(other.candidate, other.offloads);
    }
  };
  const Escape& escape_of(const Bid& bid) const {
    return bid.offloads ? candidates_[bid.candidate].offload : candidates_[bid.candidate].recompute;
  }

  /// Frees tensors one after the other, always what takes the least time for the bytes that are too many, until no
  /// moment has more than `capacity` alive or nothing helps any more.
  Choice choose(double capacity, double host_capacity) const {
    Choice choice;
    std::vector<double> live = live_;
    std::vector<bool> gone(candidates_.size(), false);
    std::priority_queue<Bid> bids;
    const auto offer = [&](Bid bid) {
      const Escape& escape = escape_of(bid);
      if (escape.seconds == kNever) return;
      bid.rate = relief(live, escape, candidates_[bid.candidate].bytes, capacity) / (escape.seconds + 1e-9);
      if (bid.rate > 0) bids.push(bid);
    };
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      for (bool offloads : {false, true}) offer({0, i, offloads});
    }
    double on_host = 0;
    while (!bids.empty()) {
      const Bid bid = bids.top();
      bids.pop();
      const Candidate& candidate = candidates_[bid.candidate];
      const auto bytes = static_cast<double>(candidate.bytes);
      if (gone[bid.candidate] || (bid.offloads && on_host + bytes > host_capacity)) continue;
      const Escape& escape = escape_of(bid);
      if (relief(live, escape, candidate.bytes, capacity) / (escape.seconds + 1e-9) < bid.rate) {
        offer(bid);
        continue;
      }
      gone[bid.candidate] = true;
      for (std::size_t moment = escape.first; moment < escape.last; ++moment) live[moment] -= bytes;
      if (bid.offloads) on_host += bytes;
      (bid.offloads ? choice.offloaded : choice.dropped).insert(candidate.names.begin(), candidate.names.end());
    }
    return choice;
  }

  /// By how much what is too much gets less, summed over the moments.
  static double relief(const std::vector<double>& live, const Escape& escape, std::size_t bytes, double capacity) {
    double sum = 0;
    for (std::size_t moment = escape.first; moment < escape.last; ++moment) {
      sum += std::clamp(live[moment] - capacity, 0.0, static_cast<double>(bytes));
    }
    return sum;
  }

  PlanningTools& tools_;
  const CyclePolicies& policies_;
  CycleRequest all_, none_;  // with all automatic interiors kept, and with none
  std::map<NodeId, double> node_seconds_;
  double feed_seconds_ = 0;
  std::vector<Candidate> candidates_;
  std::vector<double> live_;  // by moment
  std::size_t steps_a_moment_ = 1;
  Profile profile_;
  StepTimes times_;
  Result best_;
};

}  // namespace

InstructionList search_interior(PlanningTools& tools, const CycleRequest& request, const CyclePolicies& policies) {
  return InteriorSearch(tools, request, policies).best();
}

}  // namespace sectionflow
