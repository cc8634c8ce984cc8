#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/export.h"
#include "data/dataset_options.h"
#include "data/labeled_images.h"
#include "data/source.h"

namespace SF_API sectionflow {

struct PipelineNode;
struct SplitDataset;

/// What an iterator has done so far.
struct DatasetStatistics {
  std::int64_t examples = 0;         ///< delivered, each of a batch counted
  std::int64_t batches = 0;          ///< calls of next() that gave something
  std::int64_t bytes = 0;            ///< of the tensors delivered
  double seconds_waited = 0;         ///< that calls of next() took: what a training run waits for data
  std::int64_t skipped_records = 0;  ///< left out by an ErrorPolicy, what was worked ahead included
  std::int64_t skipped_files = 0;    ///< of which so much was left out as stood behind a damaged record
  std::string last_skipped = {};     ///< the error for which something was left out last: file and place
};

/// One walk through a Dataset. Owns: the threads that work ahead, and what they have made. Threads: one at a time. It
/// may be destroyed at any moment that no call is under way; functions of maps that are running are waited for.
class DatasetIterator {
 public:
  DatasetIterator(DatasetIterator&&) noexcept;
  DatasetIterator& operator=(DatasetIterator&&) noexcept;
  ~DatasetIterator();

  /// The next example or batch, or nothing after the last one. Throws: what a source, a map or a filter threw, after
  /// all that comes before it, and on every later call; ShapeError (SF-E406) for examples that make no batch. What is
  /// held by then, in the buffer of a shuffle of data that come one after the other, in buckets or in a batch that is
  /// not full, is not delivered.
  std::optional<Example> next();

  /// Calls look(name, tensor) for each tensor of what next() will give, if a prefetch() at the end has made it already;
  /// it stays the iterator's, which stands where it stood. `look` must not call the iterator.
  void look_ahead(const LookAtTensor& look) const;

  /// Where the walk stands behind what next() gave last, as a text for Dataset::iterate, which goes on from there with
  /// the same bytes. What was made ahead does not count.
  std::string position() const;
  /// The same for later: gives what position() would give now, whenever it is called. Of data sets that hold many
  /// examples, such as a shuffle's buffer, positions are long to tell; to keep this takes next to nothing. Owns: what
  /// it needs; neither the iterator nor the data set must live on. Threads: any.
  std::function<std::string()> position_later() const;

  /// Batches that are made from here on, and that no stage behind holds as a shuffle does, lie in this memory where it
  /// has room, bit for bit the same; nullptr: in memory of their own again. Each goes back when it ends, wherever that
  /// is. Asked for memory on the threads that make batches; what it throws comes out of next(). Threads: as next().
  void lend(std::shared_ptr<BatchMemory> memory);

  /// The epoch, by the outermost repeat, of what next() gave last.
  std::int64_t epoch() const;

  DatasetStatistics statistics() const;

 private:
  friend class Dataset;
  struct State;
  explicit DatasetIterator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A description of examples and of what is done to them, each call giving a longer one:
///
///   const Dataset batches = Dataset::from(images).shuffle({.seed = 1}).map(augment, {.threads = 4}).batch({.size =
///   100});
///
/// Operations are done in the order in which they are written. Data that come by number keep that through map, shuffle,
/// shard, take, skip and repeat: such a chain can start anywhere without making what comes before. Filters, batches and
/// sources that are read from the start make a sequence of it. What is delivered is the same for every number of
/// threads. Owns: its sources and functions, which copies share; nothing is read before iterate(). Threads: any number
/// at once.
class Dataset {
 public:
  /// The examples of a source, in its order. Throws: ArgumentError for none.
  static Dataset from(std::shared_ptr<const IndexedSource> source);
  static Dataset from(std::shared_ptr<const StreamSource> source);
  /// Examples that lie side by side in tensors: the first axis counts them. Throws: ShapeError for scalars and for
  /// tensors of different length; ArgumentError without tensors.
  static Dataset from(Example tensors, std::string name = "tensors");
  /// "image" u8 [H,W,C] and "label" i32 []. The bytes are shared, not copied: they must stay as they are.
  static Dataset from(const LabeledImages& images);
  /// The examples function(0), function(1), ... until it gives nothing. It is a function of the number alone: after a
  /// restart it is asked for the next number. One iterator calls it from one thread at a time.
  static Dataset generate(std::string name, std::function<std::optional<Example>(std::int64_t)> function);

  /// Each example becomes what the function makes of it.
  Dataset map(MapFunction function, MapOptions options = {}) const;
  /// Keeps the examples for which the function is true. The name tells pipelines apart.
  Dataset filter(FilterFunction keep, std::string name = "") const;
  /// Another order each epoch. Throws: ArgumentError when the order of data by number takes more than `buffer_bytes`.
  Dataset shuffle(ShuffleOptions options = {}) const;
  Dataset batch(BatchOptions options = {}) const;
  /// All that comes before, so many times, or for ever. Each time is an epoch with an order of its own.
  Dataset repeat(std::int64_t epochs = kEndless) const;
  Dataset prefetch(PrefetchOptions options = {}) const;
  /// Of every `count` examples, or batches, that of number `index`: the part of one of `count` readers. Dealt out in
  /// turn: what a reader gets as its number k is of number k count + index.
  Dataset shard(std::int64_t count, std::int64_t index, ShardOptions options = {}) const;
  /// The first `count` examples of each epoch.
  Dataset take(std::int64_t count) const;
  /// Without the first `count` examples of each epoch.
  Dataset skip(std::int64_t count) const;
  /// Two parts of the examples: to learn from, and to be judged by. Which are which follows from the options and the
  /// number of examples alone, the same in each epoch and under any number of threads; in both parts they come in the
  /// order that they had. An index takes 4 bytes an example. Throws: ArgumentError for a share that is none, where
  /// there are fewer than two examples, where they cannot be had by number or have no end, and behind a shuffle or a
  /// repeat, under which a place is another example's each epoch.
  SplitDataset split(SplitOptions options = {}) const;
  /// What becomes of DataErrors of all that comes before, up to an earlier on_error. Of data by number take, skip,
  /// shard and repeat count what is damaged; elsewhere they do not.
  Dataset on_error(ErrorPolicy policy) const;

  /// How many examples or batches there are, where that is known without reading: kEndless if there is no end.
  std::optional<std::int64_t> size() const;
  /// One line for each operation.
  std::string text() const;

  /// From the beginning, or from where another iterator stood: its position(). Throws: ArgumentError (SF-E403) naming
  /// the first operation that differs for a position of another pipeline; how many threads work, how far ahead, and how
  /// often the last repeat goes round may differ, and so may every on_error where the position's pipeline let all
  /// errors out: what has failed at a damaged record goes on without it. DataError (SF-E404) for a damaged one.
  DatasetIterator iterate(const std::string& position = {}) const;
  /// One epoch as a repeat would deliver it, for loops that count epochs themselves. Throws: ArgumentError for a
  /// negative one.
  DatasetIterator iterate_epoch(std::int64_t epoch) const;

 private:
  explicit Dataset(std::shared_ptr<const PipelineNode> node) : node_(std::move(node)) {}
  std::shared_ptr<const PipelineNode> node_;
};

/// What Dataset::split makes.
struct SplitDataset {
  Dataset train;
  Dataset validation;
};

}  // namespace sectionflow
