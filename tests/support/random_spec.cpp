#include <algorithm>
#include <optional>

#include "tests/support/dice.h"
#include "tests/support/layer_kinds.h"
#include "tests/support/training_spec.h"

namespace sectionflow::testing {
namespace {

const LayerKind& draw_kind(Dice& dice) {
  int total = 0;
  for (const LayerKind& kind : layer_kinds()) total += kind.weight;
  auto place = static_cast<int>(dice.between(0, total - 1));
  for (const LayerKind& kind : layer_kinds()) {
    if (place < kind.weight) return kind;
    place -= kind.weight;
  }
  return layer_kinds().front();
}

LayerSpec draw_layer(Dice& dice, int id) {
  const LayerKind& kind = draw_kind(dice);
  LayerSpec layer{.id = id, .kind = kind.name};
  // Few sizes, so that shapes meet: shared variables and sums of equal tensors need that.
  if (kind.sized) layer.size = dice.chance(70) ? 3 : dice.between(1, 5);
  layer.side = dice.chance(60) && kind.sized ? 3 : 1;
  layer.stride = dice.chance(20) && kind.sized ? 2 : 1;
  layer.bias = kind.sized && dice.chance(40);
  if (kind.shares && dice.chance(55)) {
    layer.shared = dice.chance(80) ? 0 : 1;
    if (kind.sized) layer.size = layer.side = 3;
  }
  if (kind.reads_source && !dice.chance(15)) layer.source = static_cast<int>(dice.between(0, id - 1));
  layer.option = static_cast<int>(dice.between(0, kind.options - 1));
  return layer;
}

/// An earlier layer once more, with the same variables; nothing where the dice or the layers are against it.
std::optional<LayerSpec> repeat_one(Dice& dice, std::vector<LayerSpec>& earlier, int id) {
  if (earlier.empty() || !dice.chance(15)) return std::nullopt;
  LayerSpec& first = earlier[static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(earlier.size()) - 1))];
  if (!kind_named(first.kind).shares) return std::nullopt;
  first.shared = std::max(first.shared, 0);
  LayerSpec again = first;
  again.id = id;
  return again;
}

Place draw_place(Dice& dice, int percent_of_borders) {
  if (!dice.chance(percent_of_borders)) return Place::same;
  return dice.chance(85) ? Place::section : Place::outside;
}

void draw_training(Dice& dice, TrainingSpec& spec) {
  const auto& names = optimizer_names();
  spec.optimizer = names[static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(names.size()) - 1))];
  spec.gradients = dice.chance(60) ? GradientUse::plain : static_cast<GradientUse>(dice.between(1, 3));
  spec.threads = static_cast<int>(dice.between(1, 2));
  spec.smaller_last_batch = dice.chance(40);
  spec.feeds_rate = dice.chance(30);
  spec.counts_steps = dice.chance(20);
  spec.evaluates = dice.chance(30);
  spec.masks_loss = dice.chance(30);
  spec.ties_head = dice.chance(50);
  spec.prepares_images = dice.chance(30);
}

/// Drawn by dice of their own: the model of a seed is the same wherever its tensors are kept.
void draw_offloads(Dice dice, TrainingSpec& spec) {
  spec.sections.borders = static_cast<BorderPolicy>(dice.between(0, 3));
  spec.sections.interior = static_cast<InteriorPolicy>(dice.between(0, 3));
  spec.sections.prefetch = static_cast<int>(dice.between(0, 2));
  spec.sections_differ = dice.chance(30);
  spec.has_disk = dice.chance(50);
  spec.copy_threads = dice.chance(50);
  spec.slow_link = dice.chance(30);
  if (dice.chance(60)) spec.budget = dice.chance(40) ? 0 : static_cast<int>(dice.between(1, 100));
}

/// By dice of their own too.
void draw_updates(Dice dice, TrainingSpec& spec) {
  if (dice.chance(30)) spec.micro_batches = static_cast<int>(dice.between(2, 3));
  spec.skips = dice.chance(25);
  spec.averages = dice.chance(25);
}

}  // namespace

TrainingSpec random_spec(std::uint64_t seed) {
  Dice dice(seed);
  TrainingSpec spec{.seed = seed};
  spec.side = dice.between(3, 6);
  spec.channels = dice.chance(75) ? 3 : dice.between(1, 4);
  spec.batch = dice.between(2, 5);
  draw_training(dice, spec);
  const auto num_layers = static_cast<int>(dice.between(2, 14));
  // From one section for all to as many as layers.
  const auto percent = static_cast<int>(dice.between(0, 5)) * 20;
  for (int id = 1; id <= num_layers; ++id) {
    LayerSpec layer = repeat_one(dice, spec.layers, id).value_or(draw_layer(dice, id));
    layer.place = id == 1 ? (dice.chance(75) ? Place::section : Place::outside) : draw_place(dice, percent);
    spec.layers.push_back(layer);
  }
  spec.head = draw_place(dice, std::max(percent, 30));
  draw_offloads(Dice(seed + 1000000), spec);
  draw_updates(Dice(seed + 2000000), spec);
  return spec;
}

}  // namespace sectionflow::testing
