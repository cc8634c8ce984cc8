#include "planning/chain_starts.h"

#include <algorithm>
#include <numeric>

namespace sectionflow::planning {
namespace {

constexpr int kMostStages = 24, kSlots = 200;

}  // namespace

ChainStarts::ChainStarts(const FlatProblem& problem) : problem_(problem) {
  find_middle();
  find_stages();
  if (stage_ends_.size() < 2) return;
  find_backwards();
  measure();
}

void ChainStarts::find_middle() {
  const int count = problem_.num_operations();
  std::vector<int> last_reader(pos(problem_.num_values()), -1);
  for (int v = 0; v < count; ++v) {
    for (const int input : problem_.inputs_of(v)) last_reader[pos(input)] = v;
  }
  std::vector<std::int64_t> change(pos(count) + 1, 0);
  for (int i = 0; i < problem_.num_values(); ++i) {
    const int producer = problem_.producer[pos(i)];
    if (producer < 0 || last_reader[pos(i)] < 0 || problem_.at_end[pos(i)] != 0) continue;
    change[pos(producer)] += problem_.bytes[pos(i)];
    change[pos(last_reader[pos(i)]) + 1] -= problem_.bytes[pos(i)];
  }
  std::int64_t alive = 0, most = 0;
  for (int v = 0; v < count; ++v) {
    alive += change[pos(v)];
    if (alive <= most) continue;
    most = alive;
    middle_ = v;
  }
  last_forward_reader_.assign(pos(problem_.num_values()), -1);
  for (int v = 0; v <= middle_; ++v) {
    for (const int input : problem_.inputs_of(v)) last_forward_reader_[pos(input)] = v;
  }
}

void ChainStarts::find_stages() {
  // Values on their way from before an operation's end to behind it.
  std::vector<int> crossing(pos(middle_) + 2, 0);
  for (int i = 0; i < problem_.num_values(); ++i) {
    const int producer = problem_.producer[pos(i)], last = last_forward_reader_[pos(i)];
    if (producer < 0 || last < 0) continue;
    ++crossing[pos(producer)];
    --crossing[pos(last)];
  }
  std::vector<int> ends;
  std::vector<double> until;
  double seconds = 0;
  int crossed = 0;
  for (int v = 0; v < middle_; ++v) {
    seconds += problem_.seconds[pos(v)];
    crossed += crossing[pos(v)];
    if (crossed != 1) continue;
    ends.push_back(v);
    until.push_back(seconds);
  }
  for (int i = 0; i < static_cast<int>(ends.size()); ++i) {
    // The last of those in the same part of the time.
    const auto part = [&](int index) {
      return static_cast<int>(until[pos(index)] * kMostStages / std::max(seconds, 1e-30));
    };
    if (i + 1 < static_cast<int>(ends.size()) && static_cast<int>(ends.size()) >= kMostStages && part(i) == part(i + 1))
      continue;
    stage_ends_.push_back(ends[pos(i)]);
  }
  stage_ends_.push_back(middle_);
}

void ChainStarts::find_backwards() {
  const auto stage_of = [&](int operation) {
    return static_cast<int>(std::lower_bound(stage_ends_.begin(), stage_ends_.end(), operation) - stage_ends_.begin());
  };
  backwards_.resize(stage_ends_.size());
  int stage = static_cast<int>(stage_ends_.size()) - 1;
  for (int v = middle_ + 1; v < problem_.num_operations(); ++v) {
    int of_inputs = -1;
    for (const int input : problem_.inputs_of(v)) {
      const int producer = problem_.producer[pos(input)];
      if (producer < 0 || producer > middle_) continue;
      // What crosses a border belongs to the stage that reads it.
      of_inputs = std::max(of_inputs, stage_of(std::max(producer, last_forward_reader_[pos(input)])));
    }
    if (of_inputs >= 0) stage = std::min(stage, of_inputs);
    backwards_[pos(stage)].push_back(v);
  }
}

void ChainStarts::measure() {
  const std::size_t stages = stage_ends_.size();
  chain_.forward_seconds.assign(stages, 0);
  chain_.backward_seconds.assign(stages, 0);
  chain_.input_bytes.assign(stages + 1, 0);
  chain_.saved_bytes.assign(stages + 1, 0);
  chain_.forward_workspace.assign(stages, 0);
  chain_.backward_workspace.assign(stages, 0);
  std::vector<std::uint8_t> read_behind(pos(problem_.num_values()), 0);
  for (int v = middle_ + 1; v < problem_.num_operations(); ++v) {
    for (const int input : problem_.inputs_of(v)) read_behind[pos(input)] = 1;
  }
  const auto needed = [&](int v) {
    std::int64_t bytes = problem_.workspace[pos(v)];
    for (const int input : problem_.inputs_of(v))
      bytes += problem_.producer[pos(input)] < 0 ? 0 : problem_.bytes[pos(input)];
    for (const int output : problem_.outputs_of(v)) bytes += problem_.bytes[pos(output)];
    return bytes;
  };
  int v = 0;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    for (; v <= stage_ends_[stage]; ++v) {
      chain_.forward_seconds[stage] += problem_.seconds[pos(v)];
      chain_.forward_workspace[stage] = std::max(chain_.forward_workspace[stage], needed(v));
      for (const int output : problem_.outputs_of(v)) {
        const bool crosses = last_forward_reader_[pos(output)] > stage_ends_[stage];
        if (crosses) chain_.input_bytes[stage + 1] += problem_.bytes[pos(output)];
        if (crosses || read_behind[pos(output)] != 0) chain_.saved_bytes[stage + 1] += problem_.bytes[pos(output)];
      }
    }
    for (const int w : backwards_[stage]) {
      chain_.backward_seconds[stage] += problem_.seconds[pos(w)];
      chain_.backward_workspace[stage] = std::max(chain_.backward_workspace[stage], needed(w));
    }
    for (std::int64_t* work : {&chain_.forward_workspace[stage], &chain_.backward_workspace[stage]}) {
      *work = std::max<std::int64_t>(*work - chain_.input_bytes[stage] - chain_.input_bytes[stage + 1], 0);
    }
  }
}

std::vector<int> ChainStarts::order(std::int64_t budget) const {
  if (backwards_.empty()) return {};
  const std::optional<ChainPlan> plan = plan_chain(chain_, budget, kSlots);
  if (!plan) return {};
  std::vector<int> order;
  std::vector<std::uint8_t> executed(pos(problem_.num_operations()), 0);
  for (const ChainStep& step : plan->steps) {
    if (step.kind == ChainStep::Kind::loss) continue;
    if (step.kind == ChainStep::Kind::backward) {
      for (const int v : backwards_[pos(step.stage)]) execute(v, order, executed);
    } else {
      const int first = step.stage == 0 ? 0 : stage_ends_[pos(step.stage - 1)] + 1;
      for (int v = first; v <= stage_ends_[pos(step.stage)]; ++v) execute(v, order, executed);
    }
  }
  return without_unread(order);
}

void ChainStarts::execute(int operation, std::vector<int>& order, std::vector<std::uint8_t>& executed) const {
  if (executed[pos(operation)] != 0 && problem_.repeatable[pos(operation)] == 0) return;
  executed[pos(operation)] = 1;
  order.push_back(operation);
}

/// Executions that are the first of their operations, or of which something is read before the next.
std::vector<int> ChainStarts::without_unread(const std::vector<int>& order) const {
  std::vector<std::size_t> first(pos(problem_.num_operations()), order.size());
  for (std::size_t i = order.size(); i-- > 0;) first[pos(order[i])] = i;
  std::vector<std::uint8_t> wanted(problem_.at_end);
  std::vector<int> kept;
  for (std::size_t i = order.size(); i-- > 0;) {
    const int v = order[i];
    const std::span<const int> outputs = problem_.outputs_of(v);
    const bool is_read =
        std::any_of(outputs.begin(), outputs.end(), [&](int output) { return wanted[pos(output)] != 0; });
    if (!is_read && first[pos(v)] != i) continue;
    kept.push_back(v);
    for (const int output : outputs) wanted[pos(output)] = 0;
    for (const int input : problem_.inputs_of(v)) wanted[pos(input)] = 1;
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace sectionflow::planning
