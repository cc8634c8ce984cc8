#include <algorithm>

#include "tests/support/dice.h"
#include "tests/support/layer_kinds.h"
#include "tests/support/program_spec.h"

namespace sectionflow::testing {
namespace {

LayerSpec draw_program_layer(Dice& dice, int id) {
  const auto& kinds = program_layer_kinds();
  int total = 0;
  for (const LayerKind& kind : kinds) total += kind.weight;
  auto place = static_cast<int>(dice.between(0, total - 1));
  const LayerKind* drawn = &kinds.front();
  for (const LayerKind& kind : kinds) {
    drawn = &kind;
    if (place < kind.weight) break;
    place -= kind.weight;
  }
  LayerSpec layer{.id = id, .kind = drawn->name, .size = 3};
  layer.place = dice.chance(40) ? Place::section : Place::same;
  layer.option = static_cast<int>(dice.between(0, drawn->options - 1));
  if (drawn->shares && dice.chance(40)) layer.shared = 0;
  return layer;
}

/// A model of random_spec's, shorter, with the layers that only programs have.
TrainingSpec draw_model(Dice& dice, std::uint64_t seed) {
  // Apart from the models of other tests.
  TrainingSpec model = random_spec(seed + 5'000'000);
  model.seed = seed;
  model.steps = dice.between(1, 3);
  model.skips = model.averages = false;
  const auto most = static_cast<std::size_t>(dice.between(1, 8));
  if (model.layers.size() > most) model.layers.resize(most);
  const auto more = static_cast<int>(dice.between(0, 3));
  for (int i = 0; i < more; ++i) {
    const auto at = dice.between(0, static_cast<std::int64_t>(model.layers.size()));
    model.layers.insert(model.layers.begin() + at, draw_program_layer(dice, 101 + i));
  }
  return model;
}

/// Small ones more often: they stand for what is special in a model.
int draw_number(Dice& dice) {
  return static_cast<int>(dice.chance(40) ? dice.between(0, 2) : dice.between(0, 20));
}

ExtraSpec draw_extra(Dice& dice) {
  return {.kind = static_cast<ExtraKind>(dice.between(0, kNumExtraKinds - 1)),
          .source = draw_number(dice),
          .other = draw_number(dice),
          .trains = dice.chance(15)};
}

std::vector<ExtraSpec> draw_extras(Dice& dice, TrainingSpec& model) {
  std::vector<ExtraSpec> extras;
  const auto count = dice.between(0, 5);
  for (std::int64_t i = 0; i < count; ++i) extras.push_back(draw_extra(dice));
  // An update, a value that waits for it, and outside of all sections a reader of its variable and of earlier values:
  // who comes first is decided by what is fetched together.
  if (dice.chance(25)) {
    LayerSpec seen{.id = 200, .kind = "view", .option = 2};
    seen.place = dice.chance(60) ? Place::section : Place::same;
    model.layers.push_back(seen);
    extras.push_back({.kind = ExtraKind::wait, .source = draw_number(dice), .other = 0});
    extras.push_back({.kind = ExtraKind::mix, .source = 0, .other = static_cast<int>(dice.between(1, 6))});
  }
  return extras;
}

struct Weighted {
  CallKind kind;
  int weight;
};
constexpr Weighted kCalls[] = {
    {CallKind::whole, 8},    {CallKind::cycle, 14},    {CallKind::evaluate, 5}, {CallKind::compute, 5},
    {CallKind::add, 7},      {CallKind::roll_back, 9}, {CallKind::prepare, 5},  {CallKind::initialize, 2},
    {CallKind::write, 3},    {CallKind::save, 3},      {CallKind::load, 2},     {CallKind::reload, 3},
    {CallKind::lms, 4},      {CallKind::swap, 3},      {CallKind::options, 4},  {CallKind::smallest, 4},
    {CallKind::forward, 14}, {CallKind::hold, 4},      {CallKind::discard, 1},  {CallKind::backward, 3},
};

/// Draws calls whose fetches often are those of calls before: programs that sessions keep are then executed again.
class CallDice {
 public:
  explicit CallDice(Dice& dice) : dice_(dice) {
    for (int& fetches : favourites_) fetches = static_cast<int>(dice.between(kFirstDrawnFetches, 999));
  }

  CallSpec draw() {
    int total = 0;
    for (const Weighted& call : kCalls) total += call.weight;
    auto place = static_cast<int>(dice_.between(0, total - 1));
    CallSpec drawn;
    for (const Weighted& call : kCalls) {
      drawn.kind = call.kind;
      if (place < call.weight) break;
      place -= call.weight;
    }
    return with_numbers(drawn);
  }
  CallSpec draw(CallKind kind, int session) {
    CallSpec drawn = with_numbers({.kind = kind});
    drawn.session = session;
    return drawn;
  }
  CallSpec draw(CallKind kind, int session, int fetches) {
    CallSpec drawn = draw(kind, session);
    drawn.fetches = fetches;
    return drawn;
  }

 private:
  CallSpec with_numbers(CallSpec drawn) {
    drawn.session = dice_.chance(25) ? 1 : 0;
    drawn.fetches = dice_.chance(60)   ? static_cast<int>(dice_.between(0, kFirstDrawnFetches - 1))
                    : dice_.chance(60) ? favourites_[dice_.between(0, 1)]
                                       : static_cast<int>(dice_.between(kFirstDrawnFetches, 999));
    drawn.option = static_cast<int>(dice_.between(0, 9999));
    return drawn;
  }

  Dice& dice_;
  int favourites_[2];
};

/// The call, and what makes most of it: the other half of a cycle; the same cycle before and behind an update that is
/// new; other nodes in the place of those that were taken out.
void draw_episode(Dice& dice, CallDice& draw, std::vector<CallSpec>& calls) {
  const CallSpec call = draw.draw();
  const int session = call.session;
  const CallKind trains = dice.chance(70) ? CallKind::cycle : CallKind::whole;
  switch (call.kind) {
    case CallKind::forward: {
      calls.push_back(call);
      if (dice.chance(40)) {
        CallSpec between = draw.draw();
        if (dice.chance(80)) between.session = 1 - session;
        calls.push_back(between);
      }
      calls.push_back(draw.draw(dice.chance(85) ? CallKind::backward : CallKind::discard, session));
      return;
    }
    case CallKind::prepare: {
      const bool around = dice.chance(70);
      const int fetches = draw.draw().fetches;
      if (around) calls.push_back(draw.draw(trains, session, fetches));
      calls.push_back(call);
      if (around) calls.push_back(draw.draw(trains, session, fetches));
      return;
    }
    case CallKind::roll_back: {
      calls.push_back(call);
      if (!dice.chance(80)) return;
      // Often an operation of the same kind that reads another value: all numbers of nodes are then the same again.
      CallSpec add = draw.draw(CallKind::add, session);
      if (dice.chance(60)) add.option += call.option % kDerivations - add.option % kDerivations;
      calls.push_back(add);
      const bool alone = rolled_back_use(call) == RolledBackUse::run;
      calls.push_back(
          draw.draw(alone ? CallKind::compute : trains, session, alone ? kFetchesTheLatest : kFetchesLossAndLatest));
      return;
    }
    case CallKind::lms: {
      if (dice.chance(50)) {
        // Two late readers of one value: behind what may wait for an update, and before that update.
        const auto value = static_cast<int>(dice.between(0, 20));
        calls.push_back(draw.draw(CallKind::add, session, kFromTheBack + static_cast<int>(dice.between(0, 2))));
        calls.back().option = 7 + kDerivations * value;
        calls.push_back(draw.draw(CallKind::add, session));
        calls.back().option = 8 + kDerivations * value;
        calls.push_back(call);
        calls.back().fetches = kFetchesAllMade;
        return;
      }
      calls.push_back(call);
      return;
    }
    case CallKind::load:
      if (dice.chance(80)) {
        calls.push_back(draw.draw(CallKind::save, session));
        calls.push_back(draw.draw(trains, session));
      }
      calls.push_back(call);
      return;
    default:
      calls.push_back(call);
  }
}

std::vector<CallSpec> draw_calls(Dice& dice) {
  std::vector<CallSpec> calls;
  CallDice draw(dice);
  const auto count = static_cast<std::size_t>(dice.between(3, 8));
  while (calls.size() < count) draw_episode(dice, draw, calls);
  return calls;
}

}  // namespace

ProgramSpec random_program(std::uint64_t seed) {
  Dice dice(seed + 9'000'000);
  ProgramSpec spec;
  spec.model = draw_model(dice, seed);
  spec.extras = draw_extras(dice, spec.model);
  spec.calls = draw_calls(dice);
  spec.swap_variables = dice.chance(25);
  spec.random_delays = spec.model.copy_threads && dice.chance(30);
  spec.poison = dice.chance(25);
  spec.forgets_programs = dice.chance(25);
  return spec;
}

}  // namespace sectionflow::testing
