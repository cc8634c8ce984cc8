#include "tests/support/run_program.h"

#include <algorithm>

#include "compare/compare_strategies.h"
#include "graph/ops/basic.h"
#include "runtime/engine.h"
#include "tests/support/program_runner.h"
#include "train/checkpoint.h"

namespace sectionflow::testing {
namespace {

Ending ending_of(bool done) {
  return done ? Ending::done : Ending::refused;
}

}  // namespace

ProgramRunner::ProgramRunner(const ProgramSpec& spec, const ProgramHooks& hooks) : run_(spec, hooks), spec_(spec) {
  const std::size_t budget = device_memory();
  for (int index = 0; index < static_cast<int>(pairs_.size()); ++index) {
    Pair& pair = pairs_[static_cast<std::size_t>(index)];
    SessionOptions options = session_options(spec, index == 0 ? budget : kAmpleMemory);
    // The other session goes another way.
    if (index == 1) options.copy_threads = !options.copy_threads;
    if (!options.copy_threads) options.random_delays = 0;
    pair.session = std::make_unique<Session>(run_.subject.graph(), options);
    run_.plant(run_.subject.graph(), *pair.session);
    pair.plain = std::make_unique<Session>(run_.plain.graph(), plain_options(spec));
    pair.session->initialize();
    pair.plain->initialize();
    pair.session->set_measuring(index == 0);
  }
}

void ProgramRunner::run_calls() {
  for (std::size_t i = 0; i < spec_.calls.size(); ++i) {
    const CallSpec& call = spec_.calls[i];
    forget_plain_programs(i);
    try {
      const Ending ending = make(call);
      if (run_.hooks.counts != nullptr) count(call.kind, ending);
      expect_same_state(pair_of(call));
    } catch (ProgramFault& fault) {
      fault.failure.text = text_of("call ", i, ", ", name_of(call.kind), ": ", fault.failure.text);
      throw;
    } catch (const Error& error) {
      fail(Failure::Kind::exception, code_text(error.code()),
           text_of("call ", i, ", ", name_of(call.kind), ": ", error.what()));
    }
  }
}

bool ProgramRunner::any_pending() const {
  return std::any_of(pairs_.begin(), pairs_.end(), [](const Pair& pair) { return pair.pending.has_value(); });
}

void ProgramRunner::count(CallKind kind, Ending ending) const {
  CallCounts& counts = *run_.hooks.counts;
  auto& of_ending = ending == Ending::done ? counts.done : ending == Ending::refused ? counts.refused : counts.skipped;
  ++of_ending[static_cast<std::size_t>(kind)];
}

/// The budget that the model asks for, between what a cycle needs at least and what it takes where there is plenty.
std::size_t ProgramRunner::device_memory() {
  if (spec_.model.budget < 0) return kAmpleMemory;
  FeedStore store;
  const FeedTypes types = types_of(run_.subject.net().feeds(0, store));
  const auto needed = [&](std::size_t budget) {
    Session session(run_.subject.graph(), session_options(spec_, budget));
    std::size_t bytes = run_.subject.manager().plan(session, {run_.subject.net().loss}, types).planned_peak_bytes;
    const auto refusal = refusal_of([&] { session.initialize(); });
    if (refusal && refusal->minimum) bytes = std::max(bytes, *refusal->minimum);
    return bytes;
  };
  const std::size_t least = needed(1), most = std::max(least, needed(kAmpleMemory));
  return least + (most - least) * static_cast<std::size_t>(spec_.model.budget) / 100;
}

Ending ProgramRunner::make(const CallSpec& call) {
  Pair& pair = pair_of(call);
  switch (call.kind) {
    case CallKind::whole:
    case CallKind::cycle:
      return train(pair, call);
    case CallKind::forward:
      return run_forward(pair, call);
    case CallKind::backward:
      return run_backward(pair, call);
    case CallKind::discard:
      run_.subject.manager().discard_forward(*pair.session);
      pair.pending.reset();
      return Ending::done;
    case CallKind::evaluate:
    case CallKind::compute:
      return run(pair, call);
    case CallKind::add:
      run_.subject.derive(call, true);
      run_.plain.derive(call, true);
      return Ending::done;
    case CallKind::roll_back:
      return roll_back(pair, call);
    case CallKind::prepare:
      return prepare(call);
    case CallKind::initialize:
      return initialize(pair);
    case CallKind::write:
      return write(pair, call);
    case CallKind::save:
    case CallKind::load:
      return save_or_load(pair, call);
    case CallKind::reload:
      return reload(pair, call);
    case CallKind::lms:
      return ending_of(simulate_lms(run_, call));
    case CallKind::swap:
      return ending_of(run_swap(run_, call));
    case CallKind::options:
      return set_options(call);
    case CallKind::hold:
      return hold(call);
    case CallKind::smallest:
      return ending_of(run_smallest(run_, call));
  }
  return Ending::skipped;
}

/// A plain session compiles all that it executes anew: what it has kept may be of a graph that was another.
void ProgramRunner::forget_plain_programs(std::size_t call) {
  for (const Pair& pair : pairs_) {
    engine(*pair.plain).set_instruction_editor(text_of("call ", call), [](InstructionList list, PlanningTools&) {
      return list;
    });
  }
}

/// Makes a call on the session in question. True: it was refused, and had to be: while a forward half is pending;
/// for a budget that is too small, where `fits` says so; or as `plain`, the same call on the plain session, is.
bool ProgramRunner::refused(const Pair& pair, const Call& call, const Call& plain,
                            const std::function<bool(std::size_t budget)>& fits) {
  const auto refusal = refusal_of(call);
  if (!refusal) {
    if (pair.pending)
      fail(Failure::Kind::complaint, "pending", "the call was accepted while a forward half is pending");
    return false;
  }
  if (pair.pending && refusal->code == ErrorCode::pending_half) return true;
  if (refusal->minimum) {
    const bool small = *refusal->minimum > pair.session->budget_bytes();
    // Amid an update the minimum is that of its next micro-batch, and a plan that of the one that takes the most.
    const bool is_planned = spec_.model.micro_batches == 1;
    if (small && (!fits || ((!is_planned || fits(*refusal->minimum)) && !fits(*refusal->minimum - 1)))) return true;
    fail(Failure::Kind::complaint, "budget", text_of("refused wrongly, or for a wrong minimum: ", refusal->text));
  }
  if (plain) {
    const auto of_plain = refusal_of(plain);
    if (of_plain && of_plain->code == refusal->code) return true;
  }
  fail(Failure::Kind::exception, code_text(refusal->code), refusal->text);
}

void ProgramRunner::expect_same_state(Pair& pair) {
  if (pair.session->completed_cycles() != pair.plain->completed_cycles()) {
    fail(Failure::Kind::complaint, "cycles",
         text_of(pair.session->completed_cycles(), " cycles counted; wanted ", pair.plain->completed_cycles()));
  }
  // Variables cannot be read while a half is pending.
  if (pair.pending) return;
  expect_same("afterwards", {{}, read_variables(*pair.session)}, {{}, read_variables(*pair.plain)}, {});
}

void ProgramRunner::expect_memory(const Pair& pair, const std::string& who) const {
  if (pair.session == pairs_[0].session) expect_planned_memory(who, *pair.session);
}

/// Nodes that are run, and are gone then; only what training they made has happened remains.
Ending ProgramRunner::roll_back(Pair& pair, const CallSpec& call) {
  struct RolledBack {};
  GraphSectionManager& manager = run_.subject.manager();
  const Value loss = run_.subject.net().loss;
  FeedStore store;
  const Feeds feeds = run_.subject.net().feeds(pair.step, store);
  bool trained = false;
  const auto use = [&](Value made) {
    RolledBackUse use = rolled_back_use(call);
    // What waits for an update brings it along: a run of it would train.
    if (use == RolledBackUse::run && !run_.subject.is_forward(made)) use = RolledBackUse::plan;
    switch (use) {
      case RolledBackUse::run:
        pair.session->run({made}, feeds);
        return;
      case RolledBackUse::cycle:
        manager.run_full_cycle(*pair.session, {loss, made}, feeds);
        trained = true;
        return;
      case RolledBackUse::forward:
        manager.run_forward(*pair.session, {run_.subject.is_forward(made) ? made : loss}, feeds);
        manager.discard_forward(*pair.session);
        return;
      case RolledBackUse::plan:
        manager.plan(*pair.session, {made, loss}, types_of(feeds));
        return;
    }
  };
  std::optional<Refusal> refusal;
  try {
    run_.subject.graph().all_or_nothing([&] {
      const Value made = run_.subject.derive(call, false);
      if (!pair.pending) refusal = refusal_of([&] { use(made); });
      throw RolledBack();
    });
  } catch (const RolledBack&) {
  }
  if (refusal && !refusal->minimum && refusal->code != ErrorCode::graph_cycle) {
    fail(Failure::Kind::exception, code_text(refusal->code), refusal->text);
  }
  if (refusal) return Ending::refused;
  if (!trained) return Ending::done;
  FeedStore plain_store;
  pair.plain->run({run_.plain.net().loss}, run_.plain.net().feeds(pair.step, plain_store), run_.targets(run_.plain));
  ++pair.step;
  return Ending::done;
}

Ending ProgramRunner::prepare(const CallSpec& call) {
  // A half in flight has begun with the updates that there were.
  if (any_pending()) return Ending::skipped;
  run_.subject.add_late(call);
  run_.plain.add_late(call);
  const auto refusal = refusal_of([&] { run_.subject.manager().prepare_training(); });
  const auto of_plain = refusal_of([&] { run_.plain.manager().prepare_training(); });
  if (refusal.has_value() == of_plain.has_value()) return ending_of(!refusal);
  fail(Failure::Kind::exception, "prepare", refusal ? refusal->text : of_plain->text);
}

Ending ProgramRunner::initialize(Pair& pair) {
  const Call plain = [&] { pair.plain->initialize(); };
  if (refused(pair, [&] { pair.session->initialize(); }, {})) return Ending::refused;
  plain();
  return Ending::done;
}

Ending ProgramRunner::write(Pair& pair, const CallSpec& call) {
  const Value variable = run_.subject.variable_of(call.fetches);
  HostTensor tensor(variable.type());
  if (variable.dtype() == Dtype::f32) {
    tensor = random_images(variable.shape(), static_cast<std::uint64_t>(call.option), 1);
  } else if (variable.dtype() == Dtype::i64) {
    // Micro-batches of which there are none are refused by what trains next, not here.
    const int values = variable.name() == "micro_batch" ? spec_.model.micro_batches : 5;
    std::fill(tensor.values<std::int64_t>().begin(), tensor.values<std::int64_t>().end(), call.option % values);
  }
  if (refused(pair, [&] { pair.session->write(variable, tensor); }, {})) return Ending::refused;
  pair.plain->write(run_.plain.variable_of(call.fetches), tensor);
  return Ending::done;
}

Ending ProgramRunner::save_or_load(Pair& pair, const CallSpec& call) {
  const auto file = [&](const char* who) {
    return (run_.folder.path() / text_of(who, call.session, ".safetensors")).string();
  };
  if (call.kind == CallKind::save) {
    if (refused(pair, [&] { save_variables(*pair.session, file("saved")); }, {})) return Ending::refused;
    save_variables(*pair.plain, file("plain"));
    pair.saved = true;
    return Ending::done;
  }
  if (!pair.saved) return Ending::skipped;
  if (refused(pair, [&] { load_variables(*pair.session, file("saved")); }, {})) return Ending::refused;
  load_variables(*pair.plain, file("plain"));
  return Ending::done;
}

Ending ProgramRunner::reload(Pair& pair, const CallSpec& call) {
  if (pair.pending) return Ending::skipped;
  const Reloaded reloaded = run_reloaded(run_, *pair.session, call, pair.step);
  std::optional<Outcome> wanted;
  const Ending ending = train(pair, call, false, wanted);
  if (!wanted) return ending;
  if (reloaded.refused) fail(Failure::Kind::exception, code_text(reloaded.refused->code), reloaded.refused->text);
  expect_same("a reloaded session", reloaded.outcome, *wanted, run_.subject.fetches_of(call, false));
  return ending;
}

Ending ProgramRunner::set_options(const CallSpec& call) {
  SectionOptions options;
  options.borders = static_cast<BorderPolicy>(call.option % 4);
  if (options.borders == BorderPolicy::disk && !spec_.model.has_disk) options.borders = BorderPolicy::host;
  options.interior = static_cast<InteriorPolicy>(call.option / 4 % 4);
  options.prefetch = call.option / 16 % 3;
  run_.subject.manager().set_section_options(options);
  return Ending::done;
}

/// What a section keeps for later runs from here on, beside what it must. With no fetches that is nothing.
Ending ProgramRunner::hold(const CallSpec& call) {
  const GraphSectionManager& manager = run_.subject.manager();
  GraphSection& section = manager.section(call.option % static_cast<int>(manager.sections().size()));
  std::vector<Value> feed = section.tensors_to_feed(), cache = section.tensors_to_cache();
  for (Value value : run_.subject.fetches_of(call, false)) {
    if (is_variable(value) || !value.node().op().has_kernel) continue;
    (run_.subject.is_forward(value) ? feed : cache).push_back(value);
  }
  section.set_tensors_to_feed(feed, Hold::always);
  section.set_tensors_to_cache(cache, Hold::always);
  return Ending::done;
}

std::optional<ProgramFailure> find_failure(const ProgramSpec& spec, const ProgramHooks& hooks) {
  try {
    ProgramRunner(spec, hooks).run_calls();
    return std::nullopt;
  } catch (const ProgramFault& fault) {
    return fault.failure;
  } catch (const Error& error) {
    return ProgramFailure{Failure::Kind::exception, code_text(error.code()), text_of("at the start: ", error.what())};
  } catch (const std::exception& error) {
    return ProgramFailure{Failure::Kind::exception, "untyped", text_of("no Error of ours: ", error.what())};
  }
}

}  // namespace sectionflow::testing
