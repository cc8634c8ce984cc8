// Calls of a program in sessions of their own, each compared with a plain session of the whole graph.

#include <algorithm>

#include "compare/compare_strategies.h"
#include "fit/insert_swaps.h"
#include "graph/graph_file.h"
#include "swap/lms.h"
#include "tests/support/program_run.h"
#include "train/checkpoint.h"

namespace sectionflow::testing {
namespace {

// A loaded graph has the same nodes under the same numbers.

Value in_graph(Graph& graph, Value value) {
  return graph.node(value.node().id()).output(value.output());
}

std::vector<Value> in_graph(Graph& graph, std::vector<Value> values) {
  for (Value& value : values) value = in_graph(graph, value);
  return values;
}

Feeds in_graph(Graph& graph, Feeds feeds) {
  for (Feed& feed : feeds) feed.value = in_graph(graph, feed.value);
  return feeds;
}

RunOptions in_graph(Graph& graph, RunOptions options) {
  for (Operation& target : options.targets) target = Operation(graph.node(target.node().id()));
  return options;
}

/// A step by a session that begins: both the session in question and a plain one take it.
constexpr std::int64_t kFirstStep = 0;

/// The first step of a plain session.
struct PlainStep {
  std::optional<Refusal> refused{};
  Outcome outcome{};
};

PlainStep plain_first_step(ProgramRun& run, const CallSpec& call) {
  PlainStep result;
  Session session(run.plain.graph(), plain_options(run.spec));
  session.initialize();
  FeedStore store;
  const Feeds feeds = run.plain.net().feeds(kFirstStep, store);
  result.refused = refusal_of(
      [&] { result.outcome.fetched = session.run(run.plain.fetches_of(call, false), feeds, run.targets(run.plain)); });
  result.outcome.variables = read_variables(session);
  return result;
}

/// Whether a refusal is the plain session's too; a fault where it is not.
bool refused_alike(const std::string& who, const std::optional<Refusal>& found, const std::optional<Refusal>& plain) {
  if (!found && !plain) return false;
  if (found && plain && found->code == plain->code) return true;
  const std::string text = found ? found->text : "no refusal, but the whole graph's: " + plain->text;
  fail(Failure::Kind::exception, code_text(found ? found->code : plain->code), who + ": " + text);
}

LmsOptions lms_options(const ProgramRun& run, const CallSpec& call) {
  const int option = call.option;
  LmsOptions options;
  options.sync_mode = option % 4;
  if (option % 5 == 0) {
    options.batch_size = run.spec.model.batch;
    options.autotune_gpu_mem = 1e-6 * (1 + option % 40);
    return options;
  }
  options.swapout_threshold = 2 + option % 6;
  options.swapin_groupby = option % 3;
  options.swapin_ahead = 1 + option % 4;
  if (option % 7 == 0) options.serialization = {"1:4"};
  return options;
}

}  // namespace

bool simulate_lms(ProgramRun& run, const CallSpec& call) {
  const std::string who = "a graph edited by Lms";
  const PlainStep plain = plain_first_step(run, call);
  Graph edited, saved;
  load_graph_text(edited, graph_text(run.subject.graph()));
  const auto no_edit = refusal_of([&] { Lms(lms_options(run, call)).run(edited); });
  if (no_edit && no_edit->code == ErrorCode::lms_tuning) return false;
  if (no_edit) return !refused_alike(who, no_edit, plain.refused);
  // What was edited may be saved too.
  const bool by_file = call.option % 3 == 0;
  if (by_file) load_graph_text(saved, graph_text(edited));
  Graph& graph = by_file ? saved : edited;
  Session session(graph, session_options(run.spec, kAmpleMemory));
  run.plant(graph, session);
  const std::vector<Value> fetches = run.subject.fetches_of(call, false);
  FeedStore store;
  const Feeds feeds = in_graph(graph, run.subject.net().feeds(kFirstStep, store));
  // Initial values are the same each time.
  for (int time = 0; time < 2; ++time) {
    session.initialize();
    session.set_measuring(true);
    Outcome outcome;
    const auto refused = refusal_of([&] {
      outcome.fetched = session.run(in_graph(graph, fetches), feeds, in_graph(graph, run.targets(run.subject)));
    });
    if (refused_alike(who, refused, plain.refused)) return false;
    expect_planned_memory(who, session);
    outcome.variables = read_variables(session);
    expect_same(who, outcome, plain.outcome, fetches);
  }
  return true;
}

bool run_swap(ProgramRun& run, const CallSpec& call) {
  const std::string who = "the whole graph with insert_swaps";
  const PlainStep plain = plain_first_step(run, call);
  if (plain.refused) return false;
  const std::vector<Value> fetches = run.subject.fetches_of(call, false);
  run_in_smallest_budget(who, [&](std::size_t budget) {
    Session session(run.subject.graph(), session_options(run.spec, budget));
    insert_swaps(session);
    run.plant(run.subject.graph(), session);
    session.initialize();
    session.set_measuring(true);
    FeedStore store;
    const Feeds feeds = run.subject.net().feeds(kFirstStep, store);
    Outcome outcome{session.run(fetches, feeds, run.targets(run.subject)), {}};
    expect_planned_memory(who, session);
    outcome.variables = read_variables(session);
    expect_same(who, outcome, plain.outcome, fetches);
  });
  return true;
}

bool run_smallest(ProgramRun& run, const CallSpec& call) {
  const bool halves = call.option % 2 == 1;
  const std::string who = halves ? "halves in the smallest budget" : "a cycle in the smallest budget";
  const PlainStep plain = plain_first_step(run, call);
  if (plain.refused) return false;
  GraphSectionManager& manager = run.subject.manager();
  std::vector<Value> fetches = run.subject.fetches_of(call, false);
  Outcome wanted{{}, {}};
  for (const HostTensor& tensor : plain.outcome.fetched) wanted.fetched.push_back(tensor.clone());
  if (halves) {
    // What a forward pass may not fetch is left out.
    std::vector<Value> forward;
    std::vector<HostTensor> of_forward;
    for (std::size_t i = 0; i < fetches.size(); ++i) {
      if (!run.subject.is_forward(fetches[i])) continue;
      forward.push_back(fetches[i]);
      of_forward.push_back(std::move(wanted.fetched[i]));
    }
    fetches = std::move(forward);
    wanted.fetched = std::move(of_forward);
  }
  for (const auto& [name, tensor] : plain.outcome.variables) wanted.variables.emplace(name, tensor.clone());
  std::size_t host_bytes = 0;
  const auto attempt = [&](std::size_t device_memory, std::size_t host_memory) {
    SessionOptions options = session_options(run.spec, device_memory);
    options.host_memory = host_memory;
    Session session(run.subject.graph(), options);
    run.plant(run.subject.graph(), session);
    session.initialize();
    std::size_t peak = session.statistics().planned_host_peak_bytes;  // for initial values
    session.set_measuring(true);
    FeedStore store;
    const Feeds feeds = run.subject.net().feeds(kFirstStep, store);
    Outcome outcome;
    const auto cycle = [&] {
      if (halves) {
        outcome.fetched = manager.run_forward(session, fetches, feeds);
        manager.run_backward(session);
      } else {
        outcome.fetched = manager.run_full_cycle(session, fetches, feeds);
      }
      expect_planned_memory(who, session);
      peak = std::max(peak, session.statistics().planned_host_peak_bytes);
    };
    cycle();
    outcome.variables = read_variables(session);
    expect_same(who, outcome, wanted, fetches);
    // Every micro-batch of an update has to fit, before the first is run.
    for (int i = 1; i < run.spec.model.micro_batches; ++i) cycle();
    host_bytes = peak;
  };
  std::size_t least = 0;
  run_in_smallest_budget(who, [&](std::size_t budget) {
    attempt(budget, 0);
    least = budget;
  });
  if (host_bytes == 0) return true;
  const auto refused = refusal_of([&] { attempt(least, host_bytes); });
  if (!refused) return true;
  fail(Failure::Kind::complaint, "host budget",
       text_of(who, ": the ", host_bytes, " bytes of host memory that it takes are too few: ", refused->text));
}

Reloaded run_reloaded(ProgramRun& run, Session& session, const CallSpec& call, std::int64_t step) {
  const std::string graph_file = (run.folder.path() / "graph.json").string();
  const std::string variables_file = (run.folder.path() / "reloaded.safetensors").string();
  save_graph(run.subject.graph(), graph_file);
  save_variables(session, variables_file);
  Graph graph;
  load_graph(graph, graph_file);
  Session other(graph, session_options(run.spec, kAmpleMemory));
  if (call.option % 2 == 1) insert_swaps(other);
  run.plant(graph, other);
  other.initialize();
  load_variables(other, variables_file);
  if (other.completed_cycles() != session.completed_cycles()) {
    fail(Failure::Kind::complaint, "cycles",
         text_of("a reloaded session counts ", other.completed_cycles(), " cycles, the saved one ",
                 session.completed_cycles()));
  }
  other.set_measuring(true);
  FeedStore store;
  const Feeds feeds = in_graph(graph, run.subject.net().feeds(step, store));
  const std::vector<Value> fetches = in_graph(graph, run.subject.fetches_of(call, false));
  Reloaded result;
  result.refused = refusal_of(
      [&] { result.outcome.fetched = other.run(fetches, feeds, in_graph(graph, run.targets(run.subject))); });
  if (!result.refused) {
    expect_planned_memory("a reloaded session", other);
    result.outcome.variables = read_variables(other);
  }
  return result;
}

}  // namespace sectionflow::testing
