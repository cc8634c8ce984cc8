#include "tests/support/schedule_editing.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/engine.h"

namespace sectionflow::testing_support {

StepIndex find_step(const Schedule& schedule, const StepTest& test, StepIndex from) {
  SF_CHECK(from >= 0, ArgumentError, "find_step from ", from);
  const auto found = std::find_if(schedule.steps.begin() + from, schedule.steps.end(), test);
  return found == schedule.steps.end() ? -1 : static_cast<StepIndex>(found - schedule.steps.begin());
}

StepTest computes(const Graph& graph, const std::string& op) {
  return [&graph, op](const Step& step) {
    return step.kind == StepKind::compute && graph.node(step.node).op().name == op;
  };
}

StepTest computes(const Graph& graph, const Schedule& schedule, const std::string& op, Pass::Kind pass) {
  return [&schedule, pass, is_op = computes(graph, op)](const Step& step) {
    return is_op(step) && schedule.passes[static_cast<std::size_t>(step.pass)].kind == pass;
  };
}

void repeat_step(Schedule& schedule, StepIndex index) {
  const Step copy = schedule.steps[static_cast<std::size_t>(index)];
  schedule.steps.insert(schedule.steps.begin() + index + 1, copy);
  for (Buffer& buffer : schedule.buffers) {
    if (buffer.life.first > index) ++buffer.life.first;
    // What the step reads last, its copy reads too.
    if (buffer.life.last >= index) ++buffer.life.last;
  }
  if (schedule.half > index) ++schedule.half;
}

void drop_step(Schedule& schedule, StepIndex index) {
  schedule.steps.erase(schedule.steps.begin() + index);
  for (Buffer& buffer : schedule.buffers) {
    if (buffer.life.first > index) --buffer.life.first;
    if (buffer.life.last >= index) buffer.life.last = std::max(buffer.life.first, buffer.life.last - 1);
  }
  if (schedule.half > index) --schedule.half;
}

Executable& whole_graph_program(Session& session, const std::vector<Value>& fetches, const Feeds& feeds,
                                const RunOptions& options) {
  const auto request = [&] { return RunRequest{fetches, options.targets}; };
  const auto write = [&](PlanningTools& tools) { return build_schedule(tools.graph(), request()); };
  return engine(session).program("test", signature_of(session.graph(), feeds), request, write);
}

void wrap_kernel(Executable& program, StepIndex step, WrappedKernel::Hook before, WrappedKernel::Hook after) {
  auto& kernel =
      program.kernels.at(static_cast<std::size_t>(program.schedule.steps.at(static_cast<std::size_t>(step)).slot));
  kernel = std::make_unique<WrappedKernel>(std::move(kernel), std::move(before), std::move(after));
}

}  // namespace sectionflow::testing_support
