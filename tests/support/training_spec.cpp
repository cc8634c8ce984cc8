#include "tests/support/training_spec.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/error.h"
#include "tests/support/layer_kinds.h"

namespace sectionflow::testing {
namespace {

std::string layer_line(const LayerSpec& layer) {
  const LayerKind& kind = kind_named(layer.kind);
  std::string text = text_of(layer.id, " ", layer.kind);
  if (kind.options > 1) text += text_of(" #", layer.option % kind.options);
  if (kind.sized) text += text_of(", size ", layer.size);
  if (layer.side > 1) text += text_of(", side ", layer.side);
  if (layer.stride > 1) text += text_of(", stride ", layer.stride);
  if (layer.bias) text += ", bias";
  if (layer.shared >= 0) text += text_of(", shared variables ", layer.shared);
  if (kind.reads_source) text += layer.source < 0 ? ", with the images" : text_of(", with layer ", layer.source);
  return text;
}

std::string training_line(const TrainingSpec& spec) {
  constexpr std::array<const char*, 4> uses = {"", ", gradients clipped", ", gradients divided by their norm",
                                               ", gradients with noise"};
  std::string text = text_of("images [", spec.batch, ",", spec.side, ",", spec.side, ",", spec.channels, "]");
  if (spec.smaller_last_batch) text += ", a smaller last batch";
  text += text_of(", ", spec.steps, " steps, ", spec.threads, spec.threads == 1 ? " thread, " : " threads, ",
                  spec.optimizer, uses.at(static_cast<std::size_t>(spec.gradients)));
  if (spec.feeds_rate) text += ", fed rate";
  if (spec.counts_steps) text += ", global step";
  if (spec.micro_batches > 1) text += text_of(", ", spec.micro_batches, " micro-batches");
  if (spec.ranks > 1) {
    text += text_of(", ", spec.ranks, " ranks, distribution ", static_cast<int>(spec.distribution));
    if (spec.server) text += text_of(" at rank ", *spec.server);
  }
  if (spec.skips) text += ", skipped updates";
  if (spec.averages) text += ", averages";
  if (spec.evaluates) text += ", evaluation between steps";
  if (spec.masks_loss) text += ", masked loss";
  if (spec.ties_head) text += ", tied head";
  if (spec.prepares_images) text += ", prepared images";
  constexpr std::array<const char*, 4> borders = {"", ", borders stay", ", borders on the host", ", borders on disk"};
  constexpr std::array<const char*, 4> interiors = {"", ", interiors stay", ", interiors swapped",
                                                    ", interiors automatic"};
  text += borders.at(static_cast<std::size_t>(spec.sections.borders));
  text += interiors.at(static_cast<std::size_t>(spec.sections.interior));
  if (spec.sections.prefetch != 1) text += text_of(", prefetch ", spec.sections.prefetch);
  if (spec.sections_differ) text += ", sections differ";
  if (spec.has_disk) text += ", disk";
  if (spec.copy_threads) text += ", copy threads";
  if (spec.slow_link) text += ", slow link";
  if (spec.budget >= 0) text += text_of(", budget ", spec.budget, " %");
  return text;
}

}  // namespace

int num_sections(const TrainingSpec& spec) {
  const auto opens = [](const LayerSpec& layer) { return layer.place == Place::section; };
  const auto opened = static_cast<int>(std::count_if(spec.layers.begin(), spec.layers.end(), opens));
  return std::max(1, opened + (spec.head == Place::section ? 1 : 0));
}

std::string listing(const TrainingSpec& spec) {
  std::string text = text_of("seed ", spec.seed, ": ", training_line(spec), "\n");
  int sections = 0;
  bool is_first = true;
  const auto line = [&](Place place, const std::string& what) {
    if (place == Place::section) text += text_of("  section ", sections++, "\n");
    if (place == Place::outside || (is_first && place == Place::same)) text += "  outside\n";
    text += "    " + what + "\n";
    is_first = false;
  };
  for (const LayerSpec& layer : spec.layers) line(layer.place, layer_line(layer));
  line(sections == 0 ? Place::section : spec.head, "head and loss");
  return text;
}

TrainOptions train_options(const TrainingSpec& spec) {
  TrainOptions options{.steps = spec.steps, .threads = spec.threads, .seed = spec.seed + 7};
  options.session.disk = spec.has_disk ? 64_MiB : 0;
  options.session.copy_threads = spec.copy_threads;
  options.session.link_bandwidth = spec.slow_link ? 200e6 : 0;
  options.budget = spec.budget;
  return options;
}

}  // namespace sectionflow::testing
