// The two halves of a cycle, run apart.

#include <algorithm>
#include <any>

#include "base/error.h"
#include "graph/ops/basic.h"
#include "schedule/program_key.h"
#include "sections/section_policies.h"
#include "sections/section_trainer.h"

namespace sectionflow {

/// A forward half as its backward half must know it, whatever the manager does in between.
struct SectionTrainer::ForwardHalf {
  std::shared_ptr<const int> manager;                      ///< the identity_ of the one that ran it
  std::shared_ptr<const std::vector<Operation>> training;  ///< what the cycle executes
  const Program* program = nullptr;
};

std::vector<HostTensor> SectionTrainer::forward_pass(Engine& engine, const std::vector<Value>& fetches,
                                                     const Feeds& feeds, const CycleOptions& options, Where where) {
  return user_call(where, [&] {
    const auto inside = engine.enter();
    check_prepared("run_forward");
    std::vector<CycleFetch> placed = place_fetches(engine, fetches);
    for (CycleFetch& fetch : placed) {
      SF_CHECK(map_.is_forward(fetch.value.node().id()), ArgumentError, "run_forward: fetch '", fetch.value.name(),
               "' is computed in a backward run; fetch it from run_backward or run_full_cycle");
      fetch.run = kForwardPass;
    }
    Executable& program = cycle_program(engine, placed, signature_of(*graph_, feeds));
    auto fetched = engine.execute_forward_half(program, feeds, execute_options(options),
                                               ForwardHalf{identity_, training_.taken_along(), &program});
    count_runs(program, 0, program.schedule.half);
    return fetched;
  });
}

std::vector<CycleFetch> SectionTrainer::place_backward_fetches(const Engine& engine,
                                                               const std::vector<std::vector<Value>>& fetches) const {
  const int last = static_cast<int>(sections_.size()) - 1;
  SF_CHECK(fetches.size() <= sections_.size(), ArgumentError, "run_backward: fetches for ", fetches.size(),
           " sections; there are ", sections_.size());
  std::vector<CycleFetch> placed;
  for (int k = 0; k < static_cast<int>(fetches.size()); ++k) {
    for (CycleFetch fetch : place_fetches(engine, fetches[static_cast<std::size_t>(k)])) {
      const NodeId id = fetch.value.node().id();
      const SectionIndex earliest = map_.is_forward(id) ? last : map_.backward_run[id];
      SF_CHECK(k <= earliest, ArgumentError, "run_backward: '", fetch.value.name(),
               "' is fetched from the run of section ", k, ", but is first there in that of section ", earliest);
      // A variable is read before any update.
      fetch.run = is_variable(fetch.value) ? last : k;
      placed.push_back(fetch);
    }
  }
  return placed;
}

/// The backward half with fetches that were unknown when its forward half ran: it begins with what that has left.
Executable& SectionTrainer::backward_program(Engine& engine, const ForwardHalf& begun,
                                             const std::vector<CycleFetch>& fetches) {
  const Program& forward = *begun.program;
  // The number of the forward half's program tells what is left and where, and which updates are still to come.
  ProgramKey key = key_of("backward half").add(" of ", forward.number);
  for (const CycleFetch& fetch : fetches) key.add(" @", static_cast<std::uint64_t>(fetch.run)).add(" ", fetch.value);
  return engine.program(
      key.text(), forward.signature, [&] { return executed(fetches, *begun.training); },
      [&](PlanningTools& tools) {
        return write_second_half(tools, request_for(tools.graph(), fetches, *begun.training),
                                 left_by_forward_half(forward), policies());
      });
}

std::vector<std::vector<HostTensor>> SectionTrainer::backward_pass(Engine& engine,
                                                                   const std::vector<std::vector<Value>>& fetches,
                                                                   const CycleOptions& options, Where where) {
  return user_call(where, [&] {
    const auto inside = engine.enter();
    check_prepared("run_backward");
    check_session(engine);
    const Program* forward = engine.pending();
    SF_CHECK_CODE(forward != nullptr, ArgumentError, ErrorCode::pending_half,
                  "run_backward: no forward pass is pending; call run_forward first");
    const auto* begun = std::any_cast<ForwardHalf>(engine.pending_note());
    SF_CHECK(begun != nullptr && begun->manager == identity_, ArgumentError,
             "run_backward: the pending forward pass was run by another section manager");
    engine.check_nodes(*forward);
    const std::vector<CycleFetch> placed = place_backward_fetches(engine, fetches);
    Executable* instead = placed.empty() ? nullptr : &backward_program(engine, *begun, placed);
    const Program& executed = instead != nullptr ? static_cast<const Program&>(*instead) : *forward;
    const StepIndex first = instead != nullptr ? 0 : executed.schedule.half;
    // Memory for the results is taken before anything runs.
    std::vector<std::vector<HostTensor>> result(fetches.size());
    for (std::size_t k = 0; k < fetches.size(); ++k) result[k].reserve(fetches[k].size());
    auto flat = engine.execute_backward_half(instead, execute_options(options));
    count_runs(executed, first, static_cast<StepIndex>(executed.schedule.steps.size()));
    forget_next_cycle_choices();

    std::size_t next = 0;
    for (std::size_t k = 0; !placed.empty() && k < fetches.size(); ++k) {
      for (std::size_t i = 0; i < fetches[k].size(); ++i) result[k].push_back(std::move(flat[next++]));
    }
    return result;
  });
}

}  // namespace sectionflow
