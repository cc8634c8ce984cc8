// Where the variables of a session lie between runs, and which of its programs want them where.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "graph/nodes/shards.h"
#include "runtime/engine.h"
#include "runtime/pending_half.h"
#include "runtime/swap_engine.h"
#include "schedule/micro_batches.h"

namespace sectionflow {
namespace {

/// More than any program takes.
constexpr std::size_t kAllMemory = std::numeric_limits<std::size_t>::max() / 8;

/// However long a program takes.
constexpr double kAnyhow = std::numeric_limits<double>::infinity();

std::size_t above(std::size_t bytes, std::size_t limit) {
  return bytes > limit ? bytes - limit : 0;
}

/// Bytes that the variables alone have no room for.
std::size_t excess(const VariableLayout& layout, const TierBudgets& budgets) {
  return above(layout.host_end_bytes, budgets.host) + above(layout.disk_end_bytes, budgets.disk);
}

/// Bytes off the device that a program has no room for, and then those on it.
std::pair<std::size_t, std::size_t> excess(const ProgramReport& report) {
  return {
      above(report.host_peak_bytes, report.host_budget_bytes) + above(report.disk_peak_bytes, report.disk_budget_bytes),
      above(report.planned_peak_bytes, report.budget_bytes)};
}

bool trains(const Program& program) {
  return program.advances_cycle || program.micro_batch;
}

bool is_better(const ProgramReport& a, const ProgramReport& b) {
  if (a.fits != b.fits) return a.fits;
  return a.fits ? a.predicted_seconds < b.predicted_seconds : excess(a) < excess(b);
}

}  // namespace

/// With a disk. On a GPU, and of several ranks, home tiers are the device and the host alone.
bool Engine::may_have_disk_homes() const {
  return options_.swap_variables && device_->queues() == nullptr && options_.communicator == nullptr;
}

void Engine::lay_out_variables() {
  std::vector<SizedVariable> variables;
  for (NodeId id = 0; id < graph_->num_nodes(); ++id) {
    Node& node = graph_->node(id);
    if (!node.op().is_variable() || shard_of(node.output()).valid()) continue;
    variables.push_back({id, bytes_here(node.output())});
  }
  const HomeTiers tiers = !options_.swap_variables                     ? HomeTiers::device
                          : may_have_disk_homes() && budgets_.disk > 0 ? HomeTiers::host_and_disk
                                                                       : HomeTiers::host;
  homes_ = VariableHomes(variables, static_cast<std::size_t>(graph_->num_nodes()), tiers);
}

/// Whether programs are chosen by what they are predicted to take. Those of the micro-batches of one update are not:
/// they take turns, and their variables are to stay where they are.
bool Engine::chooses_homes_by_time() const {
  return (planner_ != nullptr || edit_instructions_ != nullptr) && micro_batches_of(*graph_).empty();
}

/// Layouts in the order in which they are tried, where the variables alone have room; where there is none for them, the
/// one that comes closest.
std::vector<int> Engine::homes_to_try() const {
  std::vector<int> order;
  // Where their first values have brought them says nothing of what is to be trained.
  const int first = chooses_homes_by_time() || !homes_.is_settled() ? 0 : homes_.number();
  for (int number = first; number < homes_.count(); ++number) order.push_back(number);
  for (int number = first - 1; number >= 0; --number) order.push_back(number);
  const auto excess_of = [&](int number) { return excess(homes_.at(number), budgets_); };
  const int closest =
      *std::ranges::min_element(order, {}, [&](int number) { return std::pair(excess_of(number), number); });
  std::erase_if(order, [&](int number) { return number != closest && excess_of(number) > 0; });
  return order;
}

/// The program for the layout in which it fits; where it is predicted what it takes, the quickest of those, and of
/// equals the one with the least on disk. None counts as quicker than with all variables in host memory and no limit on
/// that: with as much memory nothing else is looked at, and with less memory nothing is ever quicker. Nothing is
/// planned beside variables that leave too little off the device for the program as it is written, which offloads
/// nothing.
std::unique_ptr<Executable> Engine::compiled_with_homes(const CompileWithHomes& compile) const {
  const auto planned = [&](int number, double only_below = kAnyhow) {
    return compile(number, budgets_, Listed::as_planned, only_below);
  };
  const auto written = [&](int number) { return compile(number, budgets_, Listed::as_written, kAnyhow); };
  if (homes_.count() == 1) return planned(0);
  if (pending_ != nullptr) return planned(pending_->program->variable_layout);
  const bool by_time = chooses_homes_by_time();
  // What trains decides; moving variables to and fro takes longer than others gain by it.
  if (by_time && homes_.is_settled() && !trains(*written(homes_.number()))) {
    std::unique_ptr<Executable> here = planned(homes_.number());
    if (here->report.fits) return here;
  }
  std::unique_ptr<Executable> best;
  double least = 0;
  int last = 0;
  std::pair<std::size_t, int> closest{kAllMemory, 0};
  for (int number : homes_to_try()) {
    if (planner_ != nullptr) {
      const std::size_t lacking = excess(written(number)->report).first;
      closest = std::min(closest, {lacking, number});
      if (lacking > 0) continue;
    }
    const bool is_timed = by_time && best != nullptr && best->report.fits && best->report.predicted_seconds > 0;
    const double limit = is_timed ? best->report.predicted_seconds : kAnyhow;
    std::unique_ptr<Executable> made = planned(number, limit);
    ProgramReport& report = made->report;
    last = number;
    // Of what is of no use nothing has been told that could be compared.
    if (is_timed && !(report.fits && report.predicted_seconds > 0 && report.predicted_seconds < limit)) continue;
    if (by_time && report.fits && report.predicted_seconds > 0) {
      if (least == 0) {
        const TierBudgets all_of_host{.device = budgets_.device, .host = kAllMemory, .disk = budgets_.disk};
        // As a rule it is as quick as this one or quicker, and sooner found as that.
        const double as_quick = std::nextafter(report.predicted_seconds, kAnyhow);
        ProgramReport freest = compile(0, all_of_host, Listed::as_planned, as_quick)->report;
        const bool is_known = freest.fits && freest.predicted_seconds < as_quick;
        if (!is_known) freest = compile(0, all_of_host, Listed::as_planned, kAnyhow)->report;
        least = freest.predicted_seconds;
      }
      report.predicted_seconds = std::max(report.predicted_seconds, least);
    }
    if (best == nullptr || is_better(report, best->report)) best = std::move(made);
    if (best->report.fits && (!by_time || best->report.predicted_seconds <= least)) break;
  }
  if (best == nullptr) return planned(closest.second);
  if (planner_ == nullptr || best->variable_layout == last) return best;
  // What the planner keeps of the program is to be of this one.
  std::unique_ptr<Executable> again = planned(best->variable_layout);
  again->report.predicted_seconds = std::max(again->report.predicted_seconds, least);
  return again;
}

/// Whether a program is to be compiled again since the variables have gone elsewhere: it may do with where they are.
bool Engine::has_other_homes(const Executable& program) const {
  return program.variable_layout != homes_.number() && program.layout_then != homes_.number() && pending_ == nullptr &&
         (!chooses_homes_by_time() || !trains(program));
}

/// Brings the variables to where a program wants them. Their values stay where they were until all of them are there.
void Engine::move_homes(const Executable& program) {
  const bool initializes = program.report.initializes;
  if (program.variable_layout != homes_.number() && !initializes) {
    holds_->make_place_for(program.report.host_peak_bytes);
    swaps_->prepare(program);
    const VariableLayout &from = homes_.now(), &to = homes_.at(program.variable_layout);
    for (NodeId id = 0; id < static_cast<NodeId>(to.disk_offsets.size()); ++id) {
      const auto index = static_cast<std::size_t>(id);
      if (from.home_of(id) == to.home_of(id)) continue;
      const bool leaves = to.has_disk_home(id);
      std::byte* const bytes = swaps_->host_base() + (leaves ? from : to).host_offsets[index];
      const std::size_t num_bytes = bytes_here(graph_->node(id).output());
      leaves ? swaps_->write_home(id, to.disk_offsets[index], {bytes, num_bytes})
             : swaps_->read_home(id, from.disk_offsets[index], {bytes, num_bytes});
    }
  }
  homes_.set(program.variable_layout, !initializes);
}

}  // namespace sectionflow
