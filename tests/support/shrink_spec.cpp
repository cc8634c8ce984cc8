#include "tests/support/shrink_spec.h"

#include <algorithm>

#include "base/error.h"
#include "tests/support/layer_kinds.h"

namespace sectionflow::testing {
namespace {

class Simplifications {
 public:
  explicit Simplifications(const TrainingSpec& spec) : spec_(spec) {}

  std::vector<TrainingSpec> all() {
    remove_layers();
    set(&TrainingSpec::steps, 1);
    if (spec_.steps > 1) set(&TrainingSpec::steps, spec_.steps - 1);
    simplify_places();
    for (std::size_t i = 0; i < spec_.layers.size(); ++i) simplify_layer(i);
    simplify_training();
    return std::move(result_);
  }

 private:
  template <class Field, class Plain>
  void set(Field TrainingSpec::*field, Plain plain) {
    if (spec_.*field == plain) return;
    TrainingSpec simpler = spec_;
    simpler.*field = plain;
    result_.push_back(std::move(simpler));
  }
  template <class Field, class Plain>
  void set(std::size_t layer, Field LayerSpec::*field, Plain plain) {
    if (spec_.layers[layer].*field == plain) return;
    TrainingSpec simpler = spec_;
    simpler.layers[layer].*field = plain;
    result_.push_back(std::move(simpler));
  }

  template <class Field, class Plain>
  void set_option(Field SectionOptions::*field, Plain plain) {
    if (spec_.sections.*field == plain) return;
    TrainingSpec simpler = spec_;
    simpler.sections.*field = plain;
    result_.push_back(std::move(simpler));
  }

  void remove_layers() {
    for (std::size_t length = (spec_.layers.size() + 1) / 2; length >= 1; length /= 2) {
      for (std::size_t first = 0; first + length <= spec_.layers.size(); first += length) remove(first, length);
    }
  }

  /// A border within what is taken out moves to what follows: the sections before and behind stay apart.
  void remove(std::size_t first, std::size_t length) {
    TrainingSpec simpler = spec_;
    const auto begin = simpler.layers.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(length);
    Place border = Place::same;
    for (auto layer = begin; layer != end; ++layer) {
      if (layer->place != Place::same) border = layer->place;
    }
    Place& next = end == simpler.layers.end() ? simpler.head : end->place;
    if (next == Place::same) next = border;
    simpler.layers.erase(begin, end);
    result_.push_back(std::move(simpler));
  }

  void simplify_places() {
    set(&TrainingSpec::head, Place::same);
    for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
      // The first layer is outside already where it opens no section.
      set(i, &LayerSpec::place, Place::same);
    }
  }

  void simplify_layer(std::size_t i) {
    const LayerSpec& layer = spec_.layers[i];
    set(i, &LayerSpec::shared, -1);
    set(i, &LayerSpec::source, -1);
    set(i, &LayerSpec::stride, 1);
    set(i, &LayerSpec::side, 1);
    set(i, &LayerSpec::bias, false);
    set(i, &LayerSpec::option, 0);
    if (layer.size > 1) set(i, &LayerSpec::size, layer.size - 1);
  }

  void simplify_training() {
    set(&TrainingSpec::threads, 1);
    set(&TrainingSpec::optimizer, "sgd");
    set(&TrainingSpec::gradients, GradientUse::plain);
    set(&TrainingSpec::smaller_last_batch, false);
    set(&TrainingSpec::feeds_rate, false);
    set(&TrainingSpec::counts_steps, false);
    set(&TrainingSpec::micro_batches, 1);
    set(&TrainingSpec::skips, false);
    set(&TrainingSpec::averages, false);
    set(&TrainingSpec::evaluates, false);
    set(&TrainingSpec::masks_loss, false);
    set(&TrainingSpec::ties_head, false);
    set(&TrainingSpec::prepares_images, false);
    set(&TrainingSpec::sections_differ, false);
    set(&TrainingSpec::budget, -1);
    set(&TrainingSpec::slow_link, false);
    set(&TrainingSpec::copy_threads, false);
    set_option(&SectionOptions::interior, InteriorPolicy::recompute);
    set_option(&SectionOptions::borders, BorderPolicy::automatic);
    set_option(&SectionOptions::prefetch, 1);
    set(&TrainingSpec::has_disk, false);
    if (spec_.batch > 1) set(&TrainingSpec::batch, spec_.batch - 1);
    if (spec_.side > 1) set(&TrainingSpec::side, spec_.side - 1);
    if (spec_.channels > 1) set(&TrainingSpec::channels, spec_.channels - 1);
  }

  const TrainingSpec& spec_;
  std::vector<TrainingSpec> result_;
};

}  // namespace

std::vector<TrainingSpec> simpler_specs(const TrainingSpec& spec) {
  return Simplifications(spec).all();
}

TrainingSpec shrink(TrainingSpec spec, const SpecTest& fails, int most_tries) {
  for (bool simplified = true; simplified;) {
    simplified = false;
    for (TrainingSpec& simpler : simpler_specs(spec)) {
      if (most_tries-- <= 0) return spec;
      if (!fails(simpler)) continue;
      spec = std::move(simpler);
      simplified = true;
      break;
    }
  }
  return spec;
}

std::string Report::text() const {
  return text_of(failure.text, "\n", listing(original), "shrunk in ", tried, " trials to\n", listing(shrunk),
                 shrunk_failure.text, "\n");
}

std::optional<Report> examine(const TrainingSpec& spec, const ChangeOptions& change) {
  const auto find = [&](const TrainingSpec& tried) {
    TrainOptions options = train_options(tried);
    if (change) change(options);
    return find_failure(training_case(tried), options);
  };
  const auto failure = find(spec);
  if (!failure) return std::nullopt;
  Report report{.original = spec, .shrunk = spec, .failure = *failure, .shrunk_failure = *failure};
  report.shrunk = shrink(spec, [&](const TrainingSpec& tried) {
    ++report.tried;
    const auto found = find(tried);
    // Another kind of failure is another fault.
    const bool same = found && found->kind == failure->kind;
    if (same) report.shrunk_failure = *found;
    return same;
  });
  return report;
}

}  // namespace sectionflow::testing
