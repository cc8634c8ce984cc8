#include "tests/support/resumable_training.h"

#include <cstdio>
#include <stdexcept>
#include <utility>

#include "base/bytes.h"
#include "base/random.h"
#include "fit/insert_swaps.h"
#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "swap/lms.h"

namespace sectionflow::testing_support {
namespace {

constexpr std::int64_t kImages = 14, kBatch = 4, kSide = 8;
constexpr int kClasses = 5;

LabeledImages random_data() {
  LabeledImages data{HostTensor(Dtype::u8, {kImages, kSide, kSide, 1}), HostTensor(Dtype::i32, {kImages}), kClasses,
                     "random"};
  std::uint64_t block = 0;
  for (std::uint8_t& pixel : data.images.values<std::uint8_t>())
    pixel = static_cast<std::uint8_t>(random_words({.seed = 11}, block++)[0]);
  for (std::int64_t i = 0; i < kImages; ++i)
    data.labels.values<std::int32_t>()[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i % kClasses);
  return data;
}

SectionOptions section_options(Way way) {
  if (way == Way::sections_and_host) return {.borders = BorderPolicy::host, .interior = InteriorPolicy::swap};
  if (way == Way::sections_and_disk) return {.borders = BorderPolicy::disk};
  return {.borders = BorderPolicy::keep};
}

}  // namespace

const char* name_of(Way way) {
  constexpr const char* names[] = {"whole", "sections", "sections+host", "sections+disk", "swaps", "lms"};
  return names[static_cast<int>(way)];
}

ResumableTraining::ResumableTraining(Way way, const ResumableOptions& options) : way_(way), data_(random_data()) {
  build(options);
  SessionOptions wanted{.host_memory = options.host_memory, .threads = options.threads, .seed = options.seed};
  wanted.device_memory = 16_MiB;
  if (way == Way::sections_and_disk) wanted.disk = 4_MiB;
  if (way == Way::lms) (void)Lms({.swapout_threshold = 2, .swapin_groupby = 1, .swapin_ahead = 1}).run(graph);
  if (way == Way::swaps && options.optimizer) {
    // So little that something must go.
    Session planner(graph, wanted);
    const std::size_t peak =
        planner.plan({loss}, types(), {.targets = manager.training_operations()}).planned_peak_bytes;
    wanted.device_memory = peak - peak / 16;
  }
  session = std::make_unique<Session>(graph, wanted);
  if (way == Way::swaps) insert_swaps(*session);
  session->initialize();
}

void ResumableTraining::build(const ResumableOptions& options) {
  images = placeholder(graph, "images", {kDynamic, kSide, kSide, 1});
  labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  Value x = images;
  {
    auto section = manager.new_section("stem");
    x = batch_norm(conv2d(x, {.features = 6 + options.extra_width}), {.relu = true});
  }
  {
    auto section = manager.new_section("middle");
    x = dropout(batch_norm(conv2d(x, {.features = 8, .stride = 2}), {.relu = true}), {.rate = 0.25F});
  }
  {
    auto section = manager.new_section("head");
    x = dropout(dense(reduce_mean(x, {.axes = {1, 2}}), {.features = 16}), {.rate = 0.5F});
    loss = mean(softmax_cross_entropy(dense(x, {.features = kClasses}), labels));
  }
  if (!options.optimizer) return;
  manager.add_training_ops(*options.optimizer, loss, {.sections = section_options(way_)});
  if (way_ != Way::lms) manager.prepare_training();
}

FeedTypes ResumableTraining::types() const {
  return {{images, {kBatch, kSide, kSide, 1}}, {labels, Shape{kBatch}}};
}

Batch ResumableTraining::next_batch() {
  BatchLoader loader(
      data_,
      {.batch = kBatch, .seed = 5, .epochs = kEndless, .first_epoch = epoch_, .first_batch = index_, .prefetch = 0});
  if (++index_ == loader.batches_per_epoch()) {
    index_ = 0;
    ++epoch_;
  }
  return *loader.next();
}

void ResumableTraining::train(int steps) {
  for (int i = 0; i < steps; ++i) {
    const Batch batch = next_batch();
    const Feeds feeds = {{images, batch.images}, {labels, batch.labels}};
    const bool whole = way_ == Way::whole || way_ == Way::swaps || way_ == Way::lms;
    auto [value] = whole ? session->run({loss}, feeds, {.targets = manager.training_operations()})
                         : manager.run_full_cycle(*session, {loss}, feeds);
    losses.push_back(std::move(value));
  }
}

HostTensor ResumableTraining::evaluate() {
  const Batch batch = next_batch();
  auto [value] = session->run({loss}, {{images, batch.images}, {labels, batch.labels}});
  return std::move(value);
}

std::string ResumableTraining::position() const {
  return text_of("epoch ", epoch_, " batch ", index_);
}

void ResumableTraining::go_to(const std::string& position) {
  if (std::sscanf(position.c_str(), "epoch %ld batch %ld", &epoch_, &index_) != 2)
    throw std::runtime_error("no position: " + position);
}

TrainingState ResumableTraining::state() {
  TrainingState state{read_variables(*session), {}};
  for (const HostTensor& value : losses) state.losses.push_back(value.clone());
  return state;
}

}  // namespace sectionflow::testing_support
