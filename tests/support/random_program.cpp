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
  const auto most = static_cast<std::size_t>(dice.between(1, 8));
  if (model.layers.size() > most) model.layers.resize(most);
  const auto more = static_cast<int>(dice.between(0, 3));
  for (int i = 0; i < more; ++i) {
    const auto at = dice.between(0, static_cast<std::int64_t>(model.layers.size()));
    model.layers.insert(model.layers.begin() + at, draw_program_layer(dice, 101 + i));
  }
  return model;
}

ExtraSpec draw_extra(Dice& dice) {
  return {.kind = static_cast<ExtraKind>(dice.between(0, kNumExtraKinds - 1)),
          .source = static_cast<int>(dice.between(0, 30)),
          .other = static_cast<int>(dice.between(0, 30)),
          .trains = dice.chance(15)};
}

struct Weighted {
  CallKind kind;
  int weight;
};
constexpr Weighted kCalls[] = {
    {CallKind::whole, 8},   {CallKind::cycle, 14},   {CallKind::evaluate, 5}, {CallKind::compute, 5},
    {CallKind::add, 7},     {CallKind::roll_back, 7}, {CallKind::prepare, 5},  {CallKind::initialize, 2},
    {CallKind::write, 3},   {CallKind::save, 3},     {CallKind::load, 2},     {CallKind::reload, 3},
    {CallKind::lms, 4},     {CallKind::swap, 3},     {CallKind::options, 4},  {CallKind::smallest, 4},
    {CallKind::forward, 14}, {CallKind::discard, 1},  {CallKind::backward, 3},
};

CallSpec draw_call(Dice& dice) {
  int total = 0;
  for (const Weighted& call : kCalls) total += call.weight;
  auto place = static_cast<int>(dice.between(0, total - 1));
  CallSpec drawn;
  for (const Weighted& call : kCalls) {
    drawn.kind = call.kind;
    if (place < call.weight) break;
    place -= call.weight;
  }
  drawn.session = dice.chance(25) ? 1 : 0;
  drawn.fetches = dice.chance(30) ? 0 : static_cast<int>(dice.between(1, 999));
  drawn.option = static_cast<int>(dice.between(0, 999));
  return drawn;
}

/// Calls in any order; a forward half mostly comes to its end, at once or behind calls for the other session.
std::vector<CallSpec> draw_calls(Dice& dice) {
  std::vector<CallSpec> calls;
  const auto count = static_cast<std::size_t>(dice.between(3, 9));
  while (calls.size() < count) {
    const CallSpec call = draw_call(dice);
    calls.push_back(call);
    if (call.kind != CallKind::forward) continue;
    CallSpec end = draw_call(dice);
    end.kind = dice.chance(85) ? CallKind::backward : CallKind::discard;
    end.session = call.session;
    if (dice.chance(40)) {
      CallSpec between = draw_call(dice);
      if (dice.chance(80)) between.session = 1 - call.session;
      calls.push_back(between);
    }
    calls.push_back(end);
  }
  return calls;
}

}  // namespace

ProgramSpec random_program(std::uint64_t seed) {
  Dice dice(seed + 9'000'000);
  ProgramSpec spec;
  spec.model = draw_model(dice, seed);
  const auto extras = dice.between(0, 4);
  for (std::int64_t i = 0; i < extras; ++i) spec.extras.push_back(draw_extra(dice));
  spec.calls = draw_calls(dice);
  spec.swap_variables = dice.chance(25);
  spec.random_delays = spec.model.copy_threads && dice.chance(30);
  spec.poison = dice.chance(25);
  return spec;
}

}  // namespace sectionflow::testing
