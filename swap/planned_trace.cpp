#include "swap/planned_trace.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/engine.h"
#include "runtime/step_events.h"
#include "swap/simulate.h"
#include "swap/step_times.h"

namespace sectionflow {
namespace {

/// On a grid on which start and duration add up to the end without rounding: no step ends behind the start of one that
/// waits for it.
double microseconds(double seconds) {
  constexpr double kGrid = 1024;
  return std::round(1e6 * seconds * kGrid) / kGrid;
}

std::vector<Trace::Event> planned_events(const Engine& engine, const Program& program, const Profile& profile) {
  const std::vector<Step>& steps = program.schedule.steps;
  const ConcreteGraph graph(engine.graph(), program.signature);
  const bool has_copy_lanes = std::any_of(steps.begin(), steps.end(), [](const Step& step) {
    return step.lane == Lane::copy_out || step.lane == Lane::copy_in;
  });
  const CopyCarrier carrier = has_copy_lanes ? CopyCarrier::threads : CopyCarrier::team;
  StepTimes times(graph, program.kernels, carrier, engine.options().link_bandwidth, profile);
  const Prediction prediction =
      simulate(program.schedule, times.of(program.schedule), times.drags_of(program.schedule));
  const StepEvents step_events(program);
  std::vector<Trace::Event> events;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Trace::Event event = step_events.event(static_cast<StepIndex>(i));
    event.cycle = engine.completed_cycles();
    event.start_us = microseconds(prediction.steps[i].start);
    event.duration_us = microseconds(prediction.steps[i].end) - event.start_us;
    events.push_back(event);
  }
  // As measured ones: in the order of their ends.
  std::stable_sort(events.begin(), events.end(), [](const Trace::Event& a, const Trace::Event& b) {
    return a.start_us + a.duration_us < b.start_us + b.duration_us;
  });
  return events;
}

}  // namespace

Trace planned_trace(const Session& session, const Profile& profile, Where where) {
  return call_at(where, [&] {
    check_profile(profile, "planned_trace");
    const Engine& behind = engine(session);
    const Program* program = behind.latest_program();
    SF_CHECK(program != nullptr, ArgumentError, "planned_trace: the session has no program that it planned or ran last",
             hint("call its plan() or run() first"));
    return Trace(behind.machine(), planned_events(behind, *program, profile));
  });
}

}  // namespace sectionflow
