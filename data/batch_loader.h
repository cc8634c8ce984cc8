#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/export.h"
#include "data/dataset_options.h"
#include "data/labeled_images.h"

namespace SF_API sectionflow {

/// Images ready to be fed, and where they stand in the run.
struct Batch {
  HostTensor images;  // f32 [B, H, W, C], level / 255
  HostTensor labels;  // i32 [B]
  std::int64_t epoch = 0;
  std::int64_t index_in_epoch = 0;
};

/// What a BatchLoader delivers, in which order, and how it works ahead.
struct BatchLoaderOptions {
  // What is delivered.
  std::int64_t batch = 32;      ///< images in a batch; the last one of an epoch may hold fewer
  std::uint64_t seed = 0;       ///< of the order of images
  bool shuffle = true;          ///< a new order each epoch, else the order of the data set
  bool drop_remainder = false;  ///< leaves out a last batch that would be smaller
  std::int64_t epochs = 1;      ///< how many there are in all, or kEndless
  /// Where to begin, as a run that is resumed does: the batches are those that an undisturbed run would get from there.
  std::int64_t first_epoch = 0;
  std::int64_t first_batch = 0;
  /// Called with each batch before it is delivered, in order; with prefetch > 0 on the loader's thread.
  std::function<void(Batch&)> transform = nullptr;

  // How fast.
  /// Batches made ahead on a thread of the loader's own, each of which costs its bytes of host memory; 0 makes every
  /// batch within next(), without a thread. Does not change what is delivered.
  int prefetch = 2;
};

/// The batches of a data set, in order. The order of images within epoch e follows from (seed, e) alone.
/// Owns: the prefetch thread and the batches not yet taken; the data set must live longer and stay unchanged.
/// Threads: one thread at a time calls next(); it may be destroyed at any moment that no call is under way.
class BatchLoader {
 public:
  /// Throws: ArgumentError for options outside their range, and when no epoch would hold a batch; ShapeError when the
  /// data set is not images u8 [N,H,W,C] with labels i32 [N]; DeviceError where the system refuses its thread.
  BatchLoader(const LabeledImages& dataset, BatchLoaderOptions options);
  BatchLoader(LabeledImages&&, BatchLoaderOptions) = delete;
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  ~BatchLoader();

  /// The next batch, or nothing after the last one. Throws: what making the batch threw (the transform, or the lack of
  /// memory), also on every later call.
  std::optional<Batch> next();

  /// Calls look(batch) with the one that next() will give, if the loader's thread has made it already; it stays the
  /// loader's. `look` must not call the loader.
  void look_ahead(const std::function<void(const Batch&)>& look) const;

  /// Batches that are made from here on lie in this memory where it has room; nullptr: in memory of their own again.
  /// Threads: any.
  void lend(std::shared_ptr<BatchMemory> memory);

  std::int64_t batches_per_epoch() const { return batches_per_epoch_; }

 private:
  // Called by the side that makes batches: the thread if there is one, else next().
  bool at_end() const;
  Batch make_next();
  Batch gather(std::int64_t first_image, std::int64_t num_images);
  void prefetch_all();

  const LabeledImages& dataset_;
  const BatchLoaderOptions options_;
  std::int64_t num_images_ = 0;
  std::int64_t batches_per_epoch_ = 0;

  std::int64_t epoch_ = 0;  // of the batch to be made next, as is index_in_epoch_
  std::int64_t index_in_epoch_ = 0;
  std::int64_t ordered_epoch_ = -1;  // the epoch that order_ is of
  std::vector<std::uint32_t> order_;

  mutable std::mutex mutex_;        // guards what follows
  std::condition_variable change_;  // of any of it
  std::shared_ptr<BatchMemory> memory_;
  std::deque<Batch> ready_;
  bool finished_ = false;     // nothing more will be made: the end, or error_
  bool stopping_ = false;     // the loader is being destroyed
  std::exception_ptr error_;  // what stopped the making
  std::jthread thread_;       // last, so that it starts after and ends before all that it uses
};

}  // namespace sectionflow
