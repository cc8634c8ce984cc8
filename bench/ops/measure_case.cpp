#include "bench/ops/measure_case.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "bench/median.h"
#include "bench/ops/op_work.h"
#include "runtime/engine.h"
#include "schedule/concrete_graph.h"

namespace sectionflow::bench {
namespace {

/// The kernels of one program, timed run by run.
class TimedProgram {
 public:
  using Selection = std::function<bool(const Node&)>;

  /// `is_timed` selects among the nodes that the program executes.
  TimedProgram(Session& session, std::vector<Operation> targets, const Selection& is_timed)
      : session_(session), options_{.targets = std::move(targets)} {
    const Program& program = engine(session).whole_program({}, {}, options_);
    const ConcreteGraph graph(session.graph(), program.signature);
    for (const Step& step : program.schedule.steps) {
      const Node& node = session.graph().node(step.node);
      if (step.kind != StepKind::compute || !is_timed(node)) continue;
      const Work work = op_work(graph, step.node);
      kernels_.push_back({.node = step.node,
                          .row = {.operation = node.op().name,
                                  .kernel = program.kernels[static_cast<std::size_t>(step.slot)]->implementation(),
                                  .is_gradient = node.phase() == Phase::training,
                                  .flops = work.flops,
                                  .bytes = work.bytes}});
    }
  }

  /// One run; `counts` is false for one that warms up.
  void run(bool counts) {
    Trace trace;
    session_.set_trace(&trace);
    session_.run(Feeds{}, options_);
    session_.set_trace(nullptr);
    if (!counts) return;
    for (Timed& kernel : kernels_) {
      for (const Trace::Event& event : trace.events()) {
        if (event.kind == StepKind::compute && event.node == kernel.node) {
          // A clock without ticks would give none.
          constexpr double kShortest = 1e-9;
          kernel.samples.push_back(std::max(kShortest, event.duration_us / 1e6));
        }
      }
    }
  }

  /// One a kernel, in the order of their execution.
  std::vector<KernelRow> rows() const {
    std::vector<KernelRow> rows;
    for (const Timed& kernel : kernels_) {
      SF_CHECK(!kernel.samples.empty(), InternalError, "measure_case: ", kernel.row.operation, " has not run");
      KernelRow& row = rows.emplace_back(kernel.row);
      row.seconds = {.median = median(kernel.samples),
                     .best = *std::min_element(kernel.samples.begin(), kernel.samples.end())};
    }
    return rows;
  }

 private:
  struct Timed {
    NodeId node = 0;
    KernelRow row;
    std::vector<double> samples{};
  };

  Session& session_;
  RunOptions options_;
  std::vector<Timed> kernels_;
};

TimedProgram peak_program(Session& session, Operation peak) {
  return {session, {peak}, [peak](const Node& node) { return &node == &peak.node(); }};
}

}  // namespace

CaseResult measure_case(const CaseRequest& request, const MeasureOptions& options) {
  SF_CHECK(options.repeats >= 1, ArgumentError, "measure_case: ", options.repeats, " repeats; wanted at least 1");
  BenchCase bench(request, options.peaks);
  Session session(bench.graph(), options.session);
  session.initialize();
  const auto timed = [&](bool of_gradient) {
    return [&bench, of_gradient](const Node& node) { return bench.is_timed(node, of_gradient); };
  };
  // The copy comes before each of the others, and takes their operands out of the caches.
  TimedProgram copy = peak_program(session, bench.copy()), product = peak_program(session, bench.product());
  TimedProgram forward(session, bench.forward(), timed(false));
  std::vector<TimedProgram> gradient;
  if (!bench.gradient().empty()) gradient.emplace_back(session, bench.gradient(), timed(true));
  constexpr int kWarmUp = 2;
  for (int round = 0; round < kWarmUp + options.repeats; ++round) {
    const bool counts = round >= kWarmUp;
    product.run(counts);
    copy.run(counts);
    forward.run(counts);
    for (TimedProgram& program : gradient) program.run(counts);
  }
  CaseResult result{.op = request.op->name,
                    .shape = request.shape,
                    .dtype = request.dtype,
                    .settings = request.settings.texts(),
                    .device = session.device_name(),
                    .threads = session.threads(),
                    .copy = copy.rows().at(0),
                    .product = product.rows().at(0),
                    .rows = forward.rows()};
  for (const TimedProgram& program : gradient) {
    for (KernelRow& row : program.rows()) result.rows.push_back(std::move(row));
  }
  return result;
}

}  // namespace sectionflow::bench
