// Training steps and runs of a program, each beside the plain session.

#include "compare/compare_strategies.h"
#include "graph/ops/basic.h"
#include "tests/support/dice.h"
#include "tests/support/program_runner.h"

namespace sectionflow::testing {

Ending ProgramRunner::train(Pair& pair, const CallSpec& call) {
  std::optional<Outcome> wanted;
  return train(pair, call, call.kind == CallKind::whole, wanted);
}

Ending ProgramRunner::train(Pair& pair, const CallSpec& call, bool whole, std::optional<Outcome>& wanted) {
  Session& session = *pair.session;
  GraphSectionManager& manager = run_.subject.manager();
  const std::vector<Value> fetches = run_.subject.fetches_of(call, false);
  FeedStore store, plain_store;
  const Feeds feeds = run_.subject.net().feeds(pair.step, store);
  const Feeds plain_feeds = run_.plain.net().feeds(pair.step, plain_store);
  const RunOptions targets = run_.targets(run_.subject);
  Outcome found, right;
  const Call plain = [&] {
    right.fetched = pair.plain->run(run_.plain.fetches_of(call, false), plain_feeds, run_.targets(run_.plain));
  };
  const auto fits = [&](std::size_t budget) {
    SessionOptions options = session.options();
    options.device_memory = budget;
    Session other(run_.subject.graph(), options);
    return whole ? other.plan(fetches, types_of(feeds), targets).fits
                 : manager.plan(other, fetches, types_of(feeds)).fits;
  };
  const Call in_question = [&] {
    found.fetched = whole ? session.run(fetches, feeds, targets) : manager.run_full_cycle(session, fetches, feeds);
  };
  if (refused(pair, in_question, plain, fits)) return Ending::refused;
  plain();
  ++pair.step;
  expect_same(whole ? "the whole graph" : "the cycle", found, right, fetches);
  expect_memory(pair, whole ? "the whole graph" : "the cycle");
  right.variables = read_variables(*pair.plain);
  wanted = std::move(right);
  return Ending::done;
}

Ending ProgramRunner::run_forward(Pair& pair, const CallSpec& call) {
  const std::vector<Value> fetches = run_.subject.fetches_of(call, true);
  FeedStore store, plain_store;
  const Feeds feeds = run_.subject.net().feeds(pair.step, store);
  const Feeds plain_feeds = run_.plain.net().feeds(pair.step, plain_store);
  Outcome found, right;
  const Call plain = [&] { right.fetched = pair.plain->run(run_.plain.fetches_of(call, true), plain_feeds); };
  const Call in_question = [&] { found.fetched = run_.subject.manager().run_forward(*pair.session, fetches, feeds); };
  if (refused(pair, in_question, plain)) return Ending::refused;
  plain();
  pair.pending = pair.step;
  expect_same("the forward half", found, right, fetches);
  return Ending::done;
}

/// What run_backward fetches, by section: everything where it may be.
std::vector<std::vector<std::size_t>> ProgramRunner::placed(const CallSpec& call, const std::vector<Value>& fetches) {
  const GraphSectionManager& manager = run_.subject.manager();
  const auto num_sections = static_cast<int>(manager.sections().size());
  std::vector<std::vector<std::size_t>> sections(static_cast<std::size_t>(num_sections));
  Dice dice(static_cast<std::uint64_t>(call.option));
  for (std::size_t i = 0; i < fetches.size(); ++i) {
    const int last = run_.subject.is_forward(fetches[i]) ? num_sections - 1 : manager.evaluated_in(fetches[i]);
    sections[static_cast<std::size_t>(dice.between(0, last))].push_back(i);
  }
  return sections;
}

Ending ProgramRunner::run_backward(Pair& pair, const CallSpec& call) {
  const bool own = call.option % 4 != 0;
  const std::vector<Value> fetches = own ? run_.subject.fetches_of(call, false) : std::vector<Value>();
  const auto sections = placed(call, fetches);
  std::vector<std::vector<Value>> asked(own ? sections.size() : 0);
  for (std::size_t k = 0; k < asked.size(); ++k) {
    for (std::size_t i : sections[k]) asked[k].push_back(fetches[i]);
  }
  FeedStore store;
  Outcome right;
  const auto run_plain = [&] {
    const std::vector<Value> plain_fetches = own ? run_.plain.fetches_of(call, false) : std::vector<Value>();
    const Feeds feeds = run_.plain.net().feeds(*pair.pending, store);
    right.fetched = pair.plain->run(plain_fetches, feeds, run_.targets(run_.plain));
  };
  std::vector<std::vector<HostTensor>> found;
  const auto refusal = refusal_of([&] { found = run_.subject.manager().run_backward(*pair.session, asked); });
  if (!pair.pending) {
    if (refusal && refusal->code == ErrorCode::pending_half) return Ending::refused;
    fail(Failure::Kind::complaint, "pending", "run_backward without a forward half was not refused as such");
  }
  if (refusal) {
    // Fetches of its own may ask for more than the budget has; then the half is still pending.
    const bool small = refusal->minimum && *refusal->minimum > pair.session->budget_bytes();
    if (own && small) return Ending::refused;
    // Or for what only an update makes, of which the update would have to wait.
    const bool circles = own && refusal->code == ErrorCode::graph_cycle;
    if (const auto plain = circles ? refusal_of(run_plain) : std::nullopt) {
      if (plain->code == ErrorCode::graph_cycle) return Ending::refused;
    }
    fail(Failure::Kind::exception, code_text(refusal->code), refusal->text);
  }
  run_plain();
  pair.pending.reset();
  ++pair.step;
  Outcome by_fetch;
  by_fetch.fetched.resize(fetches.size());
  for (std::size_t k = 0; k < asked.size(); ++k) {
    for (std::size_t j = 0; j < sections[k].size(); ++j) by_fetch.fetched[sections[k][j]] = std::move(found[k][j]);
  }
  expect_same("the backward half", by_fetch, right, fetches);
  expect_memory(pair, "the halves");
  return Ending::done;
}

Ending ProgramRunner::run(Pair& pair, const CallSpec& call) {
  const bool forward = call.kind == CallKind::evaluate;
  const auto feeds_of = [&](ProgramWorld& world, FeedStore& store) {
    return forward ? world.net().evaluation_feeds(pair.step, store) : world.net().feeds(pair.step, store);
  };
  const std::vector<Value> fetches = run_.subject.fetches_of(call, forward);
  FeedStore store, plain_store;
  const Feeds feeds = feeds_of(run_.subject, store), plain_feeds = feeds_of(run_.plain, plain_store);
  Outcome found, right;
  const Call plain = [&] { right.fetched = pair.plain->run(run_.plain.fetches_of(call, forward), plain_feeds); };
  const auto fits = [&](std::size_t budget) {
    SessionOptions options = pair.session->options();
    options.device_memory = budget;
    Session other(run_.subject.graph(), options);
    return other.plan(fetches, types_of(feeds)).fits;
  };
  if (refused(
          pair, [&] { found.fetched = pair.session->run(fetches, feeds); }, plain, fits))
    return Ending::refused;
  plain();
  expect_same("the run", found, right, fetches);
  expect_memory(pair, "the run");
  return Ending::done;
}

}  // namespace sectionflow::testing
