#include "swap/ranked_step.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.h"
#include "graph/nodes/shards.h"
#include "runtime/engine.h"
#include "schedule/ranks.h"
#include "swap/simulate.h"
#include "swap/step_times.h"

namespace sectionflow {
namespace {

const Program& communicating_program(const Session& session) {
  const Program* const program = engine(session).latest_program();
  SF_CHECK(program != nullptr, ArgumentError, "a step of ranks: the session has planned nothing",
           hint("call its plan() first"));
  SF_CHECK(communicates(program->schedule), ArgumentError,
           "a step of ranks: what the session planned last communicates nothing",
           hint("plan a training step of ranks = 2 or more (TrainingOptions::ranks)"));
  return *program;
}

double bytes_of(const Operand& operand, const Schedule& schedule) {
  if (operand.kind != Operand::Kind::buffer) return 0;
  return static_cast<double>(schedule.buffers[static_cast<std::size_t>(operand.index)].bytes);
}

/// Half of what a sum takes is the gathering of it.
RankCost cost_of(const Step& step, const ConcreteGraph& graph, int ranks, const RankNetwork& network) {
  const auto bytes = static_cast<double>(exchanged_bytes(graph, step.node));
  const Node& node = graph.graph().node(step.node);
  const Exchange exchange = exchange_of(node);
  const ShardHolders* const holders = holders_of(node);
  if (holders != nullptr && holders->has_server)
    return exchange == Exchange::gather ? broadcast_cost(bytes, network) : reduce_cost(bytes, network);
  const bool is_half = exchange == Exchange::gather || exchange == Exchange::shards_of_sum;
  return is_half ? all_gather_cost(bytes / ranks, network) : all_reduce_cost(bytes, network);
}

}  // namespace

const char* RankedStep::bound() const {
  constexpr double kHidden = 0.05;
  if (exposed_seconds <= kHidden * seconds) return "compute";
  return latency_seconds > communicate_seconds / 2 ? "latency" : "link";
}

RankedStep ranked_step(const Session& session, const Profile& profile, const RankNetwork& network) {
  check_profile(profile, "ranked_step");
  check_network(network);
  const Program& program = communicating_program(session);
  const Schedule& schedule = program.schedule;
  const Engine& behind = engine(session);
  const ConcreteGraph graph(behind.graph(), program.signature);
  const CopyCarrier carrier = behind.options().copy_threads ? CopyCarrier::threads : CopyCarrier::team;
  StepTimes times(graph, program.kernels, carrier, behind.options().link_bandwidth, profile);
  std::vector<double> seconds = times.of(schedule), drags = times.drags_of(schedule);
  std::vector<double> alone = seconds, alone_drags = drags;
  RankedStep ranked{.ranks = network.ranks};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.lane != Lane::communicate) continue;
    const RankCost cost = cost_of(step, graph, std::max(1, program.ranks), network);
    seconds[i] = cost.seconds;
    alone[i] = 0;
    drags[i] = profile.copy_drag * 2 * cost.bytes_sent;
    ranked.communicate_seconds += cost.seconds;
    ranked.latency_seconds += cost.latency_seconds;
    ranked.bytes_sent += cost.bytes_sent;
    ranked.calls += 1;
  }
  const Prediction prediction = simulate(schedule, seconds, drags);
  ranked.seconds = prediction.seconds;
  ranked.compute_seconds = prediction.compute_seconds;
  ranked.exposed_seconds = std::max(0.0, prediction.seconds - simulate(schedule, alone, alone_drags).seconds);
  return ranked;
}

GradientBytes gradient_bytes(const Session& session) {
  const Schedule& schedule = communicating_program(session).schedule;
  std::map<StepIndex, double> changes;
  std::map<int, double> by_section;
  const auto hold = [&](const Operand& operand, StepIndex first, StepIndex last) {
    changes[first] += bytes_of(operand, schedule);
    changes[last + 1] -= bytes_of(operand, schedule);
  };
  const auto life_of = [&](const Operand& operand) {
    return schedule.buffers[static_cast<std::size_t>(operand.index)].life;
  };
  for (std::size_t index = 0; index < schedule.steps.size(); ++index) {
    const Step& step = schedule.steps[index];
    if (step.lane != Lane::communicate || exchange_of(engine(session).graph().node(step.node)) == Exchange::gather)
      continue;
    const auto now = static_cast<StepIndex>(index);
    // Behind the accumulators, where there are some, comes what is summed; from then on there is the sum.
    const std::size_t sums = step.outputs.size(), first = step.inputs.size() > sums ? sums : 0;
    for (std::size_t i = 0; i < sums; ++i) {
      const Operand &x = step.inputs[first + i], &sum = step.outputs[i];
      if (x.kind != Operand::Kind::buffer || sum.kind != Operand::Kind::buffer) continue;
      by_section[schedule.passes[static_cast<std::size_t>(step.pass)].section] += bytes_of(x, schedule);
      hold(x, life_of(x).first, now);
      hold(sum, now + 1, std::max(now, life_of(sum).last));
    }
  }
  GradientBytes gradients;
  double now = 0, most = 0;
  for (const auto& [step, change] : changes) most = std::max(most, now += change);
  gradients.held = static_cast<std::size_t>(most);
  std::vector<double> sections;
  for (const auto& [section, bytes] : by_section) sections.push_back(bytes);
  std::sort(sections.rbegin(), sections.rend());
  for (std::size_t i = 0; i < std::min<std::size_t>(2, sections.size()); ++i) {
    gradients.two_sections += static_cast<std::size_t>(sections[i]);
  }
  return gradients;
}

}  // namespace sectionflow
