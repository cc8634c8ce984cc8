#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/export.h"
#include "data/batch_loader.h"
#include "data/dataset.h"
#include "data/source.h"
#include "runtime/session.h"

namespace SF_API sectionflow {

/// Where a Trainer has its batches from. A **pass** is one way through the data. What is delivered from a position on
/// must follow from the position alone: then a training that goes on from a checkpoint gets the batches that it would
/// have got. Threads: one at a time.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// The next batch: tensors by name, whose first axis counts the examples. Nothing at the end of a pass; the call
  /// after that begins the next pass, with whatever order that one has.
  virtual std::optional<Example> next() = 0;
  /// Calls look(name, tensor) for each tensor of the batch that comes next, where that is made already: a Trainer on a
  /// GPU has it copied there while the step before it is executed. Nothing is taken, and next() is to give these
  /// tensors, with the bytes that they have now. `look` calls the source no more. This one does nothing: where a batch
  /// depends on what the step before it has done, that is right.
  virtual void look_ahead(const LookAtTensor& look) const;
  /// Where the source stands: behind what next() has given last. A text that restore() of a source like this one reads.
  virtual std::string position() const = 0;
  /// The same for later: gives what position() would give now, whenever it is called, whatever the source does
  /// meanwhile. Asked before each step that is trained, and at the end of each epoch, and called only where somebody
  /// wants the position: worth its own answer where positions are long to tell. Where it throws, the step is not
  /// trained. This one calls position() at once. Owns: what it needs; the source may be gone.
  virtual std::function<std::string()> position_later() const;
  /// Goes to such a position; an empty text is the very beginning, from which every evaluation reads. Throws: DataError
  /// (SF-E609) for another text, and what the source has to say of data that are not those of the position, or of going
  /// back at all; it then stands where it was.
  virtual void restore(const std::string& position) = 0;
  /// Batches that are made from here on may lie in this memory, or, with nullptr, in no such any more: a Trainer calls
  /// it with what its session lends before it reads the source. What is delivered is the same. This one does nothing.
  virtual void lend(std::shared_ptr<BatchMemory> memory);
  /// Batches in a pass, where that is known; kEndless where a pass has no end.
  virtual std::optional<std::int64_t> batches_per_pass() const { return std::nullopt; }
};

/// Host memory that the session lends to batches: pinned where its device is a GPU, which then copies from it by
/// itself. At most SessionOptions::lent_memory, counted in `host_memory`; on the CPU nothing, unless that is said.
/// Where there is no room, where a program of the session needs the bytes, and when the session has ended, it gives
/// nothing, and batches lie in memory of their own; the log says so once. It may outlive the session, and so may what
/// it has given. nullptr where the session lends none. For DatasetIterator::lend and batches of one's own; a Trainer
/// has it by itself. Threads of the call: as Session.
std::shared_ptr<BatchMemory> batch_memory(Session& session);

/// Batches that a function makes: the `batch`-th of the `pass`-th pass, both from 0; nothing where that pass has no
/// such batch. The function is asked in order, and out of order after restore().
class FunctionBatches final : public BatchSource {
 public:
  using Function = std::function<std::optional<Example>(std::int64_t pass, std::int64_t batch)>;
  /// Throws: ArgumentError for an empty function.
  explicit FunctionBatches(Function function, Where where = Where::here());

  std::optional<Example> next() override;
  std::string position() const override;
  void restore(const std::string& position) override;

 private:
  Function function_;
  std::int64_t pass_ = 0, batch_ = 0;
};

/// Batches of labelled images, as a BatchLoader makes them: "image" f32 [B,H,W,C], levels / 255, and "label" i32 [B].
/// Where the transform throws, next() does, and makes the same batch again at the next call. Owns: the loader and its
/// thread; the images must live longer and stay unchanged.
class ImageBatches final : public BatchSource {
 public:
  /// Of the options, `epochs` is not looked at: there is always a next pass. Throws: as BatchLoader.
  explicit ImageBatches(const LabeledImages& images, BatchLoaderOptions options = {});
  ImageBatches(LabeledImages&&, BatchLoaderOptions = {}) = delete;

  std::optional<Example> next() override;
  void look_ahead(const LookAtTensor& look) const override;
  std::string position() const override;
  /// Throws: DataError (SF-E609) for a position in batches of another size, number of images, or order.
  void restore(const std::string& position) override;
  void lend(std::shared_ptr<BatchMemory> memory) override;
  std::optional<std::int64_t> batches_per_pass() const override { return loader_->batches_per_epoch(); }

 private:
  void load_from(std::int64_t pass, std::int64_t batch);

  const LabeledImages& images_;
  BatchLoaderOptions options_;
  std::string order_;  // of the batches, as positions name it
  std::shared_ptr<BatchMemory> memory_;
  std::unique_ptr<BatchLoader> loader_;
  bool has_failed_ = false;  // the loader, which then gives its error again and again
  std::int64_t pass_ = 0, batch_ = 0;
};

/// Batches of a Dataset, which must end with them: batch(), and perhaps prefetch() behind it. A pass is the data set
/// from its beginning to its end, in the order of an epoch of its own (Dataset::iterate_epoch): one that does not
/// repeat needs no repeat() here. Of one that ends with repeat(n), a pass is n epochs; with an endless repeat() it has
/// no end, and FitOptions::steps_per_epoch says what an epoch is.
///
/// Where a source, a map or a filter throws, next() does, and asks for the same batch again at the next call. Positions
/// are bound to the operations of the data set as Dataset::iterate says. Owns: a copy of the data set, and while a pass
/// is under way its threads.
class DatasetBatches final : public BatchSource {
 public:
  explicit DatasetBatches(Dataset batches);

  std::optional<Example> next() override;
  /// Batches that a prefetch() at the end of the data set has made.
  void look_ahead(const LookAtTensor& look) const override;
  std::string position() const override;
  std::function<std::string()> position_later() const override;
  /// Throws: DataError (SF-E609) for a text that is no position of a DatasetBatches; for one of another data set, or
  /// damaged, what Dataset::iterate does (SF-E403, SF-E404).
  void restore(const std::string& position) override;
  void lend(std::shared_ptr<BatchMemory> memory) override;
  std::optional<std::int64_t> batches_per_pass() const override { return batches_.size(); }

  const Dataset& dataset() const { return batches_; }
  /// Of all passes since it was made; what was worked ahead and dropped counts among the skipped.
  DatasetStatistics statistics() const;

 private:
  DatasetIterator& iterator() const;
  void drop_iterator() noexcept;

  Dataset batches_;
  std::shared_ptr<BatchMemory> memory_;
  std::int64_t pass_ = 0;
  mutable std::string begin_{};                        // where the iterator begins; empty: with the pass
  mutable std::string beginning_{};                    // position() of the very beginning; empty: not known
  mutable std::optional<DatasetIterator> iterator_{};  // made when it is asked for
  DatasetStatistics before_{};                         // of iterators that are gone
};

}  // namespace sectionflow
