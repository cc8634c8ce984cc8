#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/training_case.h"

namespace sectionflow::testing {

/// Where a layer stands: in the same section as the one before, in a new one, or outside of all.
enum class Place { same, section, outside };

/// One layer of a model. Every combination of fields can be built, and any layer can be taken out: what a layer cannot
/// use it ignores or adapts.
struct LayerSpec {
  int id = 0;                 ///< by which later layers name it
  std::string kind{};         ///< a name of layer_kinds()
  Place place = Place::same;  ///< what is before the first section is outside
  std::int64_t size = 2;      ///< filters or units, for the kinds that have parameters of their own
  std::int64_t side = 1;      ///< of a kernel
  std::int64_t stride = 1;    ///< 1 or 2
  bool bias = false;
  int shared = -1;  ///< layers of one kind and number share their variables; -1: shares none
  int source = -1;  ///< an earlier layer that is read too; -1, or one that is gone: the images
  int option = 0;   ///< which variant of the kind, where it has several
};

/// What is done to gradients before they are applied.
enum class GradientUse { plain, clipped, divided_by_norm, noisy };

/// A model, its cut, and how it is trained, as plain data: it can be listed and shrunk.
struct TrainingSpec {
  std::uint64_t seed = 0;               ///< of data and initial values
  std::int64_t side = 4, channels = 2;  ///< of the images
  std::int64_t batch = 3;
  bool smaller_last_batch = false;
  std::int64_t steps = 3;
  int threads = 1;
  std::string optimizer = "sgd";  ///< a name of optimizer_names()
  GradientUse gradients = GradientUse::plain;
  bool feeds_rate = false;    ///< the learning rate is fed, another in each step
  bool counts_steps = false;  ///< a global step
  int micro_batches = 1;      ///< steps that make an update
  int ranks = 1;              ///< that train together (ranked_training.h)
  VariableDistribution distribution = VariableDistribution::replicated;
  std::optional<int> server{};
  bool skips = false;            ///< updates whose gradients are not finite, of which there are none
  bool averages = false;         ///< the weights
  bool evaluates = false;        ///< in evaluation mode, after each step
  bool masks_loss = false;       ///< by a mask that is computed from the labels, outside
  bool ties_head = false;        ///< the head uses the table of a lookup layer, if one fits
  bool prepares_images = false;  ///< by operations outside: a cast, a trained gain
  SectionOptions sections{};     ///< where tensors are kept
  bool sections_differ = false;  ///< every second section has other policies
  bool has_disk = false;         ///< a disk tier, without which the host takes what would go there
  bool copy_threads = false;
  bool slow_link = false;
  int budget = -1;  ///< as TrainOptions::budget
  std::vector<LayerSpec> layers{};
  Place head = Place::same;  ///< of the logits and the loss
  /// Sections that place_cuts makes; above 0 nothing else opens any, and gradients are clipped or plain.
  int placed = 0;
};

/// The spec for people, a line a layer, below the sections that they are cut into.
std::string listing(const TrainingSpec& spec);

/// The number of sections of a cut; that of the head is there if no layer opens one.
int num_sections(const TrainingSpec& spec);

/// A random spec: the same for the same seed on every machine.
TrainingSpec random_spec(std::uint64_t seed);

const std::vector<std::string>& optimizer_names();

/// What to do with a model that has its training operations, before prepare_training() is called.
using BeforePrepare = std::function<void(const TrainingNet&)>;

/// The spec as a case that can be trained.
TrainingCase training_case(const TrainingSpec& spec, const BeforePrepare& before_prepare = {});
TrainOptions train_options(const TrainingSpec& spec);

}  // namespace sectionflow::testing
