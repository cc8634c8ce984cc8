#include "data/batch_loader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "data/permutation.h"
#include "data/pipeline/worker_pool.h"

namespace sectionflow {
namespace {

void check_dataset(const LabeledImages& dataset) {
  const Shape& images = dataset.images.shape();
  SF_CHECK(dataset.images.dtype() == Dtype::u8 && images.rank() == 4, ShapeError, "BatchLoader: data set '",
           dataset.name, "' has images ", dataset.images.type().text(), "; wanted u8[N,H,W,C]");
  SF_CHECK(dataset.labels.type() == (TensorType{Dtype::i32, {images[0]}}), ShapeError, "BatchLoader: data set '",
           dataset.name, "' has labels ", dataset.labels.type().text(), "; wanted i32[", images[0],
           "], one for each image");
  SF_CHECK(images[0] <= std::numeric_limits<std::int32_t>::max(), ShapeError, "BatchLoader: data set '", dataset.name,
           "' has ", images[0], " images; at most 2^31 - 1 are supported");
  const auto labels = dataset.labels.values<std::int32_t>();
  const auto outside = std::find_if(labels.begin(), labels.end(),
                                    [&](std::int32_t label) { return label < 0 || label >= dataset.num_classes; });
  SF_CHECK(outside == labels.end(), ArgumentError, "BatchLoader: data set '", dataset.name, "' has the label ",
           *outside, " but ", dataset.num_classes, " classes; wanted labels from 0 to ", dataset.num_classes - 1);
}

void check_options(const BatchLoaderOptions& options) {
  SF_CHECK(options.batch >= 1, ArgumentError, "BatchLoader: batch is ", options.batch, "; wanted 1 or more");
  SF_CHECK(options.prefetch >= 0, ArgumentError, "BatchLoader: prefetch is ", options.prefetch,
           "; wanted 0 (no thread) or the number of batches to make ahead");
  SF_CHECK(options.epochs >= 0 || options.epochs == kEndless, ArgumentError, "BatchLoader: epochs is ", options.epochs,
           "; wanted 0 or more, or kEndless");
}

}  // namespace

BatchLoader::BatchLoader(const LabeledImages& dataset, BatchLoaderOptions options)
    : dataset_(dataset),
      options_(std::move(options)),
      epoch_(options_.first_epoch),
      index_in_epoch_(options_.first_batch) {
  check_dataset(dataset_);
  check_options(options_);
  num_images_ = dataset_.images.shape()[0];
  batches_per_epoch_ = num_images_ / options_.batch;
  if (num_images_ % options_.batch != 0 && !options_.drop_remainder) ++batches_per_epoch_;
  SF_CHECK(batches_per_epoch_ > 0, ArgumentError, "BatchLoader: data set '", dataset_.name, "' of ", num_images_,
           " images has no batch of ", options_.batch, "; wanted a smaller batch, or drop_remainder = false");
  SF_CHECK(epoch_ >= 0 && index_in_epoch_ >= 0 && index_in_epoch_ <= batches_per_epoch_, ArgumentError,
           "BatchLoader: asked to begin at batch ", index_in_epoch_, " of epoch ", epoch_,
           "; an epoch has batches 0 to ", batches_per_epoch_ - 1);
  if (options_.prefetch == 0) return;
  thread_ = start_thread("a BatchLoader", "set BatchLoaderOptions::prefetch = 0", [this] { prefetch_all(); });
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  change_.notify_all();
}

std::optional<Batch> BatchLoader::next() {
  if (options_.prefetch == 0) {
    if (error_) std::rethrow_exception(error_);
    if (at_end()) return std::nullopt;
    try {
      return make_next();
    } catch (...) {
      error_ = std::current_exception();
      throw;
    }
  }
  std::unique_lock lock(mutex_);
  change_.wait(lock, [this] { return !ready_.empty() || finished_; });
  if (ready_.empty()) {
    if (error_) std::rethrow_exception(error_);
    return std::nullopt;
  }
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  change_.notify_all();
  return batch;
}

void BatchLoader::look_ahead(const std::function<void(const Batch&)>& look) const {
  const std::lock_guard lock(mutex_);
  if (!ready_.empty()) look(ready_.front());
}

void BatchLoader::prefetch_all() {
  const auto limit = static_cast<std::size_t>(options_.prefetch);
  std::exception_ptr error;
  try {
    while (!at_end()) {
      {
        // Room first, batch second: the one being made counts too, so `prefetch` bounds the memory.
        std::unique_lock lock(mutex_);
        change_.wait(lock, [&] { return stopping_ || ready_.size() < limit; });
        if (stopping_) return;
      }
      Batch batch = make_next();
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(batch));
      change_.notify_all();
    }
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  error_ = error;
  finished_ = true;
  change_.notify_all();
}

bool BatchLoader::at_end() const {
  // The position may stand behind the last batch of an epoch, as first_batch can say it.
  const std::int64_t epoch = index_in_epoch_ == batches_per_epoch_ ? epoch_ + 1 : epoch_;
  return options_.epochs != kEndless && epoch >= options_.epochs;
}

Batch BatchLoader::make_next() {
  if (index_in_epoch_ == batches_per_epoch_) {
    ++epoch_;
    index_in_epoch_ = 0;
  }
  if (ordered_epoch_ != epoch_) {
    order_.resize(static_cast<std::size_t>(num_images_));
    if (options_.shuffle) {
      order_ = epoch_order(num_images_, options_.seed, epoch_);
    } else {
      std::iota(order_.begin(), order_.end(), 0U);
    }
    ordered_epoch_ = epoch_;
  }
  const std::int64_t first_image = index_in_epoch_ * options_.batch;
  Batch batch = gather(first_image, std::min(options_.batch, num_images_ - first_image));
  if (options_.transform) options_.transform(batch);
  ++index_in_epoch_;
  return batch;
}

void BatchLoader::lend(std::shared_ptr<BatchMemory> memory) {
  const std::lock_guard lock(mutex_);
  memory_ = std::move(memory);
}

Batch BatchLoader::gather(std::int64_t first_image, std::int64_t num_images) {
  // Divided, not multiplied by 1 / 255: level / 255 rounded once is what every other loader gives.
  static const std::array<float, 256> unit_of_level = [] {
    std::array<float, 256> table{};
    for (int level = 0; level < 256; ++level)
      table[static_cast<std::size_t>(level)] = static_cast<float>(level) / 255.0F;
    return table;
  }();
  const Shape& all = dataset_.images.shape();
  std::unique_lock lock(mutex_);
  const std::shared_ptr<BatchMemory> memory = memory_;
  lock.unlock();
  Batch batch{.images = unfilled_tensor({Dtype::f32, {num_images, all[1], all[2], all[3]}}, memory.get()),
              .labels = unfilled_tensor({Dtype::i32, {num_images}}, memory.get()),
              .epoch = epoch_,
              .index_in_epoch = index_in_epoch_};
  const auto levels = dataset_.images.values<std::uint8_t>();
  const auto labels = dataset_.labels.values<std::int32_t>();
  const std::size_t image_size = levels.size() / static_cast<std::size_t>(num_images_);
  float* pixel = batch.images.values<float>().data();
  std::int32_t* label = batch.labels.values<std::int32_t>().data();
  for (std::int64_t i = first_image; i < first_image + num_images; ++i) {
    const std::size_t image = order_[static_cast<std::size_t>(i)];
    for (std::uint8_t level : levels.subspan(image * image_size, image_size)) *pixel++ = unit_of_level[level];
    *label++ = labels[image];
  }
  return batch;
}

}  // namespace sectionflow
