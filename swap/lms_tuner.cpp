#include "swap/lms_tuner.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/bytes.h"
#include "swap/lms_environment.h"
#include "swap/lms_plots.h"

namespace sectionflow {
namespace {

using Setting = std::optional<int>;

/// The last value of each run of values that mean the same: `steps` are the numbers at which the meaning changes.
std::vector<int> last_of_each(const std::set<int>& steps, int first, int last) {
  std::vector<int> values;
  for (int step : steps) {
    if (step - 1 >= first && step - 1 < last) values.push_back(step - 1);
  }
  values.push_back(last);
  return values;
}

class Tuner {
 public:
  Tuner(const LmsOptions& options, const LmsGraph& graph, const LmsLevels& levels, LmsSimulator& simulator, LmsLog& log)
      : options_(&options), graph_(&graph), levels_(&levels), simulator_(&simulator), log_(&log) {
    list_values();
    const auto given = [](int value) { return value < 0 ? Setting() : Setting(value); };
    threshold_ = given(options.swapout_threshold);
    ahead_ = given(options.swapin_ahead);
    groupby_ = given(options.swapin_groupby);
    now_ = {threshold_.value_or(1), ahead_.value_or(1), groupby_.value_or(0), options.sync_mode};
  }

  LmsTuning tune() {
    LmsTuning result;
    if (!threshold_ && !ahead_ && !groupby_ && fits({last_level(), 1, 0, now_.sync_mode})) {
      result.not_necessary = true;
      result.swapout_threshold = last_level();
      result.sync_mode = now_.sync_mode;
      result.simulation = simulate({last_level(), 1, 0, now_.sync_mode});
      return result;
    }
    result.fits = threshold_ ? find_with_threshold() : find_threshold();
    result.not_necessary = now_.threshold == last_level() && !threshold_;
    result.swapout_threshold = now_.threshold;
    result.sync_mode = now_.sync_mode;
    // Sync modes 2 and 3 know neither.
    result.swapin_ahead = now_.syncs_in() ? ahead_.value_or(-1) : now_.ahead;
    result.swapin_groupby = now_.syncs_in() ? groupby_.value_or(-1) : now_.groupby;
    result.simulation = simulate(now_);
    return result;
  }

 private:
  int last_level() const { return levels_->count(); }

  /// What values of threshold and groupby differ in anything: distances of edges, and gaps between readers of a tensor.
  void list_values() {
    std::set<int> distances = {1}, gaps = {0};
    for (const SwapTensor& tensor : swap_tensors(*graph_, *levels_, {})) {
      const NodeId source = tensor.tensor.node().id();
      std::optional<int> before;
      for (const SwapGroup& group : tensor.groups) {
        const int distance = levels_->distance(source, group.first());
        distances.insert(distance);
        if (before) gaps.insert(distance - *before);
        before = distance;
        farthest_ = std::max(farthest_, distance);
      }
    }
    thresholds_ = last_of_each(distances, 1, last_level());
    groupbys_ = last_of_each(gaps, 0, last_level());
  }

  LmsSimulation simulate(const LmsParameters& parameters) {
    return simulator_->simulate(parameters, {.to_the_end = true});
  }

  /// Simulates what is not known yet. What is simulated in the ancestor's search is drawn, others where they fit.
  bool fits(const LmsParameters& parameters, bool is_probe = true) {
    const auto key = std::tuple(parameters.threshold, parameters.ahead, parameters.groupby, parameters.sync_mode);
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    const bool draws = options_->autotune_plot && is_probe;
    const LmsSimulation simulation = simulator_->simulate(parameters, {.to_the_end = draws, .trace = draws});
    known_.emplace(key, simulation.fits);
    if (simulation.fits) report(parameters, simulation);
    if (draws) {
      write_memory_plot(options_->plot_directory, parameters, parameters.threshold == last_level(), simulation.trace,
                        simulator_->budget_bytes());
    }
    return simulation.fits;
  }

  void report(const LmsParameters& p, const LmsSimulation& simulation) {
    std::string warning;
    if (simulation.host_warning) {
      warning = text_of(" (the host's limit is exceeded: ", gib_text(simulation.host_peak_bytes), " GiB needed)");
    }
    log_->info(0, "[Simulator] Found a parameter set: swapout_threshold ", p.threshold, ", swapin_ahead ", p.ahead,
               ", swapin_groupby ", p.groupby, ", sync_mode ", p.sync_mode, warning);
  }

  /// The ancestor's search, for the largest value of `field` in [first, last] on the assumption that all below a
  /// fitting one fit. Returns whether it has found one, which is then set.
  bool search(int LmsParameters::*field, int first, int last, bool first_fit_ends = false) {
    const LmsParameters before = now_;
    int left = first, right = last;
    Setting best;
    while (left <= right) {
      const int middle = left + (right - left) / 2;
      now_.*field = middle;
      if (fits(now_)) {
        best = middle;
        if (first_fit_ends) break;
        left = middle + 1;
      } else {
        right = middle - 1;
      }
    }
    now_ = before;
    if (best) now_.*field = *best;
    return best.has_value();
  }

  /// The last of `values` that fits, if it is larger than what is set or nothing is. Most groupbys that do not fit are
  /// told by the peak of a larger one.
  bool scan(int LmsParameters::*field, const std::vector<int>& values, bool found) {
    const LmsParameters before = now_;
    int largest_left = last_level();
    for (auto value = values.rbegin(); value != values.rend(); ++value) {
      if (found && *value <= before.*field) break;
      if (*value > largest_left) continue;
      now_.*field = *value;
      if (fits(now_, false)) return true;
      if (field == &LmsParameters::groupby) largest_left = simulator_->largest_groupby_left(now_);
    }
    now_ = before;
    return found;
  }

  /// The ancestor's search for the largest ahead. Where that finds one, no larger one is looked for: a larger one may
  /// fit because fewer swap-ins find a control operation, and one beyond all distances fits best and prefetches
  /// nothing.
  bool find_ahead() {
    const bool found = search(&LmsParameters::ahead, 1, last_level());
    return found || scan(&LmsParameters::ahead, aheads(), false);
  }

  /// All that differ in anything, the best last: that above which no swap-in finds a control operation comes first.
  std::vector<int> aheads() const {
    std::vector<int> values = {last_level()};
    for (int ahead = 1; ahead <= std::min(farthest_ - 2, last_level()); ++ahead) values.push_back(ahead);
    return values;
  }

  /// Whether a threshold leaves too much on the device even if each swap-in came for its reader alone.
  bool is_hopeless(int threshold) { return !simulator_->simulate({threshold, 1, 0, 3}, {.on_demand = true}).fits; }

  /// Drops thresholds under which nothing can fit: a larger one needs no less.
  void drop_hopeless_thresholds() {
    const auto first = std::partition_point(thresholds_.begin(), thresholds_.end(),
                                            [&](int threshold) { return !is_hopeless(threshold); });
    thresholds_.erase(first, thresholds_.end());
  }

  bool find_threshold() {
    drop_hopeless_thresholds();
    for (now_.sync_mode = options_->sync_mode; now_.sync_mode <= 3; ++now_.sync_mode) {
      now_.threshold = 1;
      const bool any = fits(now_);
      const bool found = any && search(&LmsParameters::threshold, 1, last_level());
      if (!scan(&LmsParameters::threshold, thresholds_, found)) continue;
      find_ahead_and_groupby();
      return true;
    }
    if (search_everything()) return true;
    throw_nothing_fits();
  }

  void find_ahead_and_groupby() {
    if (now_.syncs_in()) return;
    if (!ahead_) find_ahead();
    if (!groupby_) find_groupby();
  }

  void find_groupby() {
    LmsParameters all = now_;
    all.groupby = last_level();
    if (fits(all)) {
      now_ = all;
      return;
    }
    scan(&LmsParameters::groupby, groupbys_, search(&LmsParameters::groupby, 0, last_level(), true));
  }

  /// Threshold given: ahead, groupby or both are open.
  bool find_with_threshold() {
    for (now_.sync_mode = options_->sync_mode; now_.sync_mode <= 3; ++now_.sync_mode) {
      const LmsParameters before = now_;
      if (now_.syncs_in()) {
        if (fits(now_)) return true;
        continue;
      }
      const bool starts = fits(now_) || (!ahead_ && find_ahead());
      if (starts) {
        find_ahead_and_groupby();
        return true;
      }
      now_ = before;
      if (search_below(now_.threshold)) return true;
      now_ = before;
    }
    // As the ancestor does: the mode that needs least, without a promise.
    now_.sync_mode = 3;
    return false;
  }

  /// All that may be named at one threshold and sync mode, the largest ahead that prefetches anything first.
  bool search_below(int threshold) {
    now_.threshold = threshold;
    const std::vector<int> all_aheads = ahead_ ? std::vector{*ahead_} : aheads();
    const std::vector<int> all_groupbys = groupby_ ? std::vector{*groupby_} : groupbys_;
    for (auto ahead = all_aheads.rbegin(); ahead != all_aheads.rend(); ++ahead) {
      now_.ahead = *ahead;
      if (scan(&LmsParameters::groupby, all_groupbys, false)) return true;
    }
    return false;
  }

  /// Every setting of threshold, ahead and groupby, in the order of preference.
  bool search_everything() {
    for (now_.sync_mode = options_->sync_mode; now_.sync_mode <= 1; ++now_.sync_mode) {
      for (auto threshold = thresholds_.rbegin(); threshold != thresholds_.rend(); ++threshold) {
        if (search_below(*threshold)) return true;
      }
    }
    return false;
  }

  /// What the device's memory must be for what the search finds to fit, in bytes: with the peak of a setting as the
  /// simulation's memory, the search gets to that setting.
  std::size_t sufficient_device_bytes() {
    const std::size_t swapping = simulate({1, 1, 0, 3}).peak_bytes;
    const std::size_t peak = std::min(swapping, simulate({last_level(), 1, 0, options_->sync_mode}).peak_bytes);
    const double ratio = lms_environment().memory_ratio;
    // One byte more than the quotient: the simulation's memory is rounded down.
    return static_cast<std::size_t>(std::ceil((static_cast<double>(peak) + 1) / ratio)) + graph_->parameter_bytes();
  }

  std::string what_would_fit() {
    const std::size_t bytes = sufficient_device_bytes();
    if (!options_->autotune_gpu_mem) {
      return text_of("give a device_memory of ", bytes, " bytes (", bytes_text(bytes), ")");
    }
    return text_of("set autotune_gpu_mem to ", static_cast<double>(bytes) / (1 << 30) * (1 + 1e-5), " GiB (",
                   bytes_text(bytes), ")");
  }

  [[noreturn]] void throw_nothing_fits() {
    throw ArgumentError(
        error_text_of("Lms: no setting of swapout_threshold, swapin_ahead and swapin_groupby fits the simulation in ",
                      bytes_text(simulator_->budget_bytes()), " beside the trainable variables; it needs more than ",
                      bytes_text(least_budget(*simulator_)),
                      hint(what_would_fit(), ", of which the variables take ", bytes_text(graph_->parameter_bytes()),
                           " and the simulation a share of ", lms_environment().memory_ratio,
                           "; or make the batch smaller, or set the parameters by hand")),
        ErrorCode::lms_tuning);
  }

  const LmsOptions* options_;
  const LmsGraph* graph_;
  const LmsLevels* levels_;
  LmsSimulator* simulator_;
  LmsLog* log_;
  Setting threshold_, ahead_, groupby_;  // as the user has given them
  LmsParameters now_;
  int farthest_ = 1;
  std::vector<int> thresholds_, groupbys_;
  std::map<std::tuple<int, int, int, int>, bool> known_;
};

}  // namespace

bool wants_tuning(const LmsOptions& options) {
  if (options.swapout_threshold > 0 && options.sync_mode >= 2) return false;
  return options.swapout_threshold < 0 || options.swapin_ahead < 0 || options.swapin_groupby < 0;
}

LmsTuning tune(const LmsOptions& options, const LmsGraph& graph, const LmsLevels& levels, LmsSimulator& simulator,
               LmsLog& log) {
  return Tuner(options, graph, levels, simulator, log).tune();
}

std::size_t least_budget(LmsSimulator& simulator) {
  return simulator.simulate({1, 1, 0, 3}, {.to_the_end = true, .on_demand = true}).peak_bytes;
}

}  // namespace sectionflow
