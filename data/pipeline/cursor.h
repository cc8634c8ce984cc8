#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/pipeline/cursor_state.h"
#include "data/pipeline/node.h"
#include "data/pipeline/worker_pool.h"

namespace sectionflow {

/// An example or a batch on its way through a pipeline.
struct PipelineItem {
  Example example;
  Recipe recipe;                  // where a stage behind holds it and asked for recipes
  std::int64_t epoch = 0;         // by the outermost repeat
  std::int64_t num_examples = 1;  // in a batch
};

/// Bytes that an example counts as where a buffer is bounded.
std::size_t counted_bytes(const Example& example);

/// What the stages of one iterator share.
class PipelineContext {
 public:
  explicit PipelineContext(int threads) {
    if (threads > 1) pool_ = std::make_unique<WorkerPool>(threads);
  }

  WorkerPool& pool() { return *pool_; }

  /// Has stages that look for an example give up, for the iterator is being destroyed.
  void stop() { stopping_ = true; }
  bool is_stopping() const { return stopping_; }

  /// Where batches are made from here on; nullptr: in memory of their own. Threads: any.
  void lend(std::shared_ptr<BatchMemory> memory) {
    const std::lock_guard lock(mutex_);
    batch_memory_ = std::move(memory);
  }
  std::shared_ptr<BatchMemory> batch_memory() const {
    const std::lock_guard lock(mutex_);
    return batch_memory_;
  }

  /// Which example was left out: the one of this index that came to a stage, or to a source, in this epoch.
  struct Place {
    const void* stage = nullptr;
    std::int64_t epoch = 0;
    std::int64_t index = 0;
  };
  /// Counts it unless it has been counted: what is read again is damaged again. Of a stage the last two epochs are
  /// remembered.
  void count_skipped(const Place& place, const std::string& error, bool skips_file);
  /// Sets the counts in the statistics.
  struct Skipped {
    std::int64_t records = 0;
    std::int64_t files = 0;
    std::string last;
  };
  Skipped skipped() const;

 private:
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<BatchMemory> batch_memory_;
  Skipped skipped_;
  std::map<const void*, std::map<std::int64_t, std::set<std::int64_t>>> counted_;  // by stage and epoch

  std::unique_ptr<WorkerPool> pool_;
};

/// A stage of a pipeline that is being walked. Its examples are counted from the beginning of an epoch.
/// Threads: one at a time. Where it stands behind an exception is undefined: nothing is called any more but the
/// destructor, begin() and restore().
class Cursor {
 public:
  virtual ~Cursor() = default;
  /// Stands before the first example of the epoch.
  virtual void begin(std::int64_t epoch) = 0;
  /// False at the end, and on every later call.
  virtual bool next(PipelineItem& item) = 0;
  /// Calls look(name, tensor) for the tensors of what next() will give, where that has been made already.
  virtual void look_ahead(const LookAtTensor& /*look*/) const {}
  /// Leaves out so many; tells how many there were. What it need not make it must not throw for, and that does not
  /// depend on who has looked ahead: the number of threads changes nothing of what is delivered.
  virtual std::int64_t skip(std::int64_t count);
  /// Where it stands behind what next() gave last.
  virtual void save(StateWriter& state) const = 0;
  /// Stands where a cursor stood that has saved the state. Throws: DataError for a state that none has saved.
  virtual void restore(std::int64_t epoch, StateReader& state) = 0;
  /// Makes an item again from its recipe. Where the cursor stands afterwards is undefined.
  virtual PipelineItem remake(std::int64_t epoch, RecipeReader& recipe) = 0;
};
using CursorPtr = std::unique_ptr<Cursor>;

/// Has a cursor stand where it stood when the state was saved, whatever it has thrown since.
void restore_to(Cursor& cursor, std::int64_t epoch, const CursorState& state);

/// Which examples are made, and what of them is kept, is decided by what stands behind.
struct CursorNeeds {
  ErrorPolicy policy = ErrorPolicy::fail;  // of the nearest on_error behind
  bool recipes = false;                    // whether a stage behind holds examples
};

/// The stages of a pipeline up to `node`. The node and the context must live longer.
CursorPtr make_cursor(const PipelineNode& node, PipelineContext& context, CursorNeeds needs = {});

/// Whether a policy leaves out what has thrown such an error: not where the reason may pass.
bool leaves_out(ErrorPolicy policy, const DataError& error);

/// The examples that a map makes of those that come to it: nothing where it has thrown a DataError and the policy
/// leaves that out.
std::optional<Example> map_example(const MapNode& map, Example example, std::int64_t epoch, std::int64_t index,
                                   ErrorPolicy policy, PipelineContext& context);

// The stages. Those with `before` own the stage before them.
CursorPtr make_indexed_cursor(const PipelineNode& node, PipelineContext& context, CursorNeeds needs);
CursorPtr make_stream_cursor(const StreamSource& source, PipelineContext& context, CursorNeeds needs);
CursorPtr make_map_cursor(const MapNode& map, CursorPtr before, PipelineContext& context, CursorNeeds needs);
CursorPtr make_filter_cursor(const FilterNode& filter, CursorPtr before, PipelineContext& context);
CursorPtr make_slice_cursor(const SliceNode& slice, CursorPtr before);
CursorPtr make_repeat_cursor(const RepeatNode& repeat, CursorPtr before, PipelineContext& context, CursorNeeds needs);
CursorPtr make_shuffle_cursor(const ShuffleOptions& options, CursorPtr before, CursorNeeds needs);
CursorPtr make_batch_cursor(const BatchOptions& options, CursorPtr before, PipelineContext& context, CursorNeeds needs);
CursorPtr make_bucket_cursor(const BatchOptions& options, CursorPtr before, PipelineContext& context,
                             CursorNeeds needs);
CursorPtr make_prefetch_cursor(const PrefetchOptions& options, CursorPtr before, PipelineContext& context);

}  // namespace sectionflow
