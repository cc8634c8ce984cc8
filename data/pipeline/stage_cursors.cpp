// Stages that see one example after the other and hold none: map, filter, take, skip, shard, repeat.

#include <deque>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include "data/pipeline/cursor.h"

namespace sectionflow {
namespace {

class MapCursor : public Cursor {
 public:
  MapCursor(const MapNode& map, CursorPtr before, PipelineContext& context, CursorNeeds needs)
      : map_(map), before_(std::move(before)), context_(context), needs_(needs) {
    const int threads = map.options.threads;
    if (threads > 1) work_.emplace(context.pool(), static_cast<std::size_t>(4 * threads), map.options.max_bytes);
  }

  void begin(std::int64_t epoch) override {
    stand_at(epoch, 0);
    before_->begin(epoch);
    if (work_) delivered_ = state_now();
  }

  bool next(PipelineItem& item) override { return work_ ? next_of_workers(item) : next_at_once(item); }

  std::int64_t skip(std::int64_t count) override {
    if (needs_.policy != ErrorPolicy::fail) return Cursor::skip(count);
    std::int64_t skipped = drop_tickets(count);
    // What came before has thrown for an example that is left out now, and that it need not have made.
    if (error_ && skipped < count) restore_to(*this, epoch_, delivered_);
    if (!ended_ && skipped < count) {
      const std::int64_t skipped_before = before_->skip(count - skipped);
      index_ += skipped_before;
      skipped += skipped_before;
    }
    if (work_ && tickets_.empty()) delivered_ = state_now();
    return skipped;
  }

  void save(StateWriter& state) const override {
    if (work_) {
      state.append(delivered_);
    } else {
      save_now(state);
    }
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    stand_at(epoch, state.next());
    before_->restore(epoch, state);
    if (work_) delivered_ = state_now();
  }
  PipelineItem remake(std::int64_t epoch, RecipeReader& recipe) override {
    const std::int64_t index = recipe.next();
    PipelineItem item = before_->remake(epoch, recipe);
    auto mapped = map_example(map_, std::move(item.example), epoch, index, needs_.policy, context_);
    if (!mapped) throw_damaged_position("an example that was there is left out now");
    item.example = std::move(*mapped);
    return item;
  }

 private:
  /// What is known of an item while a worker has its example.
  struct Ticket {
    Recipe recipe;
    std::int64_t epoch = 0;
    std::int64_t num_examples = 1;
    CursorState state;  // behind it
  };

  void stand_at(std::int64_t epoch, std::int64_t index) {
    if (work_) work_->clear();
    tickets_.clear();
    ended_ = false;
    error_ = nullptr;
    epoch_ = epoch;
    index_ = index;
  }

  void save_now(StateWriter& state) const {
    state.number(index_);
    before_->save(state);
  }
  CursorState state_now() const {
    StateWriter writer;
    save_now(writer);
    return writer.take();
  }

  /// Leaves out what workers have already. Without workers the function would not have been called for it: what it has
  /// thrown is dropped too, so that what is delivered does not depend on the number of threads.
  std::int64_t drop_tickets(std::int64_t count) {
    std::int64_t dropped = 0;
    for (; dropped < count && !tickets_.empty(); ++dropped) {
      delivered_ = std::move(tickets_.front().state);
      tickets_.pop_front();
      work_->drop();
    }
    return dropped;
  }

  bool next_at_once(PipelineItem& item) {
    while (before_->next(item)) {
      const std::int64_t index = index_++;
      auto mapped = map_example(map_, std::move(item.example), epoch_, index, needs_.policy, context_);
      if (!mapped) continue;
      item.example = std::move(*mapped);
      if (needs_.recipes) item.recipe.push_back(index);
      return true;
    }
    return false;
  }

  bool next_of_workers(PipelineItem& item) {
    while (true) {
      submit_more();
      if (tickets_.empty()) {
        if (error_) std::rethrow_exception(error_);
        // At the end it stands where it would without workers: behind what was left out last, too.
        delivered_ = state_now();
        return false;
      }
      Ticket ticket = std::move(tickets_.front());
      tickets_.pop_front();
      std::optional<Example> mapped = work_->take();
      delivered_ = std::move(ticket.state);
      if (!mapped) continue;
      item = {std::move(*mapped), std::move(ticket.recipe), ticket.epoch, ticket.num_examples};
      return true;
    }
  }

  void submit_more() {
    while (!ended_ && work_->has_capacity()) {
      PipelineItem item;
      try {
        ended_ = !before_->next(item);
      } catch (...) {
        // Comes out behind what was there before it.
        error_ = std::current_exception();
        ended_ = true;
      }
      if (ended_) return;
      const std::int64_t index = index_++;
      if (needs_.recipes) item.recipe.push_back(index);
      tickets_.push_back({std::move(item.recipe), item.epoch, item.num_examples, state_now()});
      const std::int64_t epoch = epoch_;
      work_->submit(
          [this, epoch, index](Example example) {
            return map_example(map_, std::move(example), epoch, index, needs_.policy, context_);
          },
          std::move(item.example));
    }
  }

  const MapNode& map_;
  const CursorPtr before_;
  PipelineContext& context_;
  const CursorNeeds needs_;
  std::int64_t epoch_ = 0;
  std::int64_t index_ = 0;  // of the example that comes next from before
  // With workers:
  std::deque<Ticket> tickets_;
  CursorState delivered_;            // behind what next() gave last
  bool ended_ = false;               // nothing comes from before any more
  std::exception_ptr error_;         // what ended it, where it threw
  std::optional<OrderedWork> work_;  // last: its tasks use what stands above
};

class FilterCursor : public Cursor {
 public:
  FilterCursor(const FilterNode& filter, CursorPtr before, PipelineContext& context)
      : filter_(filter), before_(std::move(before)), context_(context) {}

  void begin(std::int64_t epoch) override { before_->begin(epoch); }
  bool next(PipelineItem& item) override {
    while (!context_.is_stopping() && before_->next(item)) {
      if (filter_.keep(item.example)) return true;
    }
    return false;
  }
  void save(StateWriter& state) const override { before_->save(state); }
  void restore(std::int64_t epoch, StateReader& state) override { before_->restore(epoch, state); }
  PipelineItem remake(std::int64_t epoch, RecipeReader& recipe) override { return before_->remake(epoch, recipe); }

 private:
  const FilterNode& filter_;
  const CursorPtr before_;
  PipelineContext& context_;
};

class SliceCursor : public Cursor {
 public:
  SliceCursor(const SliceNode& slice, CursorPtr before) : slice_(slice), before_(std::move(before)) {}

  void begin(std::int64_t epoch) override {
    delivered_ = 0;
    ended_ = false;
    before_->begin(epoch);
  }
  bool next(PipelineItem& item) override {
    if (slice_.count && delivered_ >= *slice_.count) return false;
    const std::int64_t between = delivered_ == 0 || slice_.whole_rounds ? slice_.first : slice_.step - 1;
    if (ended_ || !skips(between) || !before_->next(item)) return false;
    // What closes the round need not be made to be there.
    ended_ = slice_.whole_rounds && !skips(slice_.step - 1 - slice_.first);
    if (ended_) return false;
    ++delivered_;
    return true;
  }
  void save(StateWriter& state) const override {
    state.number(delivered_);
    before_->save(state);
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    delivered_ = state.next();
    ended_ = false;
    before_->restore(epoch, state);
  }
  PipelineItem remake(std::int64_t epoch, RecipeReader& recipe) override { return before_->remake(epoch, recipe); }

 private:
  bool skips(std::int64_t count) { return count <= 0 || before_->skip(count) == count; }

  const SliceNode& slice_;
  const CursorPtr before_;
  std::int64_t delivered_ = 0;
  bool ended_ = false;  // within a round that is not whole
};

class RepeatCursor : public Cursor {
 public:
  RepeatCursor(const RepeatNode& repeat, CursorPtr before, PipelineContext& context, CursorNeeds needs)
      : epochs_(repeat.epochs), before_(std::move(before)), context_(context), recipes_(needs.recipes) {}

  void begin(std::int64_t epoch) override {
    lap_ = 0;
    delivered_in_lap_ = false;
    first_ = first_of(epoch);
    if (epochs_ != 0) before_->begin(first_);
  }

  bool next(PipelineItem& item) override {
    if (lap_ == epochs_ || epochs_ == 0) return false;
    while (!before_->next(item)) {
      if (context_.is_stopping()) return false;
      SF_CHECK_CODE(delivered_in_lap_ || epochs_ != kEndless, ArgumentError, ErrorCode::nothing_to_repeat,
                    "Dataset::repeat: an epoch gave no example and would be repeated for ever",
                    hint("look at the filters, and at what on_error leaves out"));
      // What gave nothing once is not asked a million times more.
      lap_ = delivered_in_lap_ ? lap_ + 1 : epochs_;
      if (lap_ == epochs_) return false;
      delivered_in_lap_ = false;
      before_->begin(epoch_now());
    }
    delivered_in_lap_ = true;
    item.epoch = lap_;
    if (recipes_) item.recipe.push_back(epoch_now());
    return true;
  }

  void save(StateWriter& state) const override {
    state.number(lap_);
    state.number(delivered_in_lap_ ? 1 : 0);
    if (epochs_ != 0) before_->save(state);
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    lap_ = state.next();
    delivered_in_lap_ = state.next(2) == 1;
    first_ = first_of(epoch);
    if (epochs_ == 0) return;
    before_->restore(epoch_now(), state);
    // A longer run may go on in a shorter repeat: it has ended then.
    if (epochs_ != kEndless && lap_ > epochs_) lap_ = epochs_;
  }
  PipelineItem remake(std::int64_t, RecipeReader& recipe) override {
    const std::int64_t epoch = recipe.next();
    PipelineItem item = before_->remake(epoch, recipe);
    item.epoch = epoch - first_;
    return item;
  }

 private:
  /// Epochs of a position may be any numbers.
  static std::int64_t sum(std::int64_t a, std::int64_t b) {
    const std::uint64_t sum = static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b);
    return static_cast<std::int64_t>(sum & std::numeric_limits<std::int64_t>::max());
  }
  std::int64_t first_of(std::int64_t epoch) const {
    if (epochs_ == kEndless) return epoch;
    const std::uint64_t first = static_cast<std::uint64_t>(epoch) * static_cast<std::uint64_t>(epochs_);
    return static_cast<std::int64_t>(first & std::numeric_limits<std::int64_t>::max());
  }
  std::int64_t epoch_now() const { return sum(first_, lap_); }

  const std::int64_t epochs_;
  const CursorPtr before_;
  PipelineContext& context_;
  const bool recipes_;
  std::int64_t first_ = 0;  // epoch of what comes before, in the first lap
  std::int64_t lap_ = 0;
  bool delivered_in_lap_ = false;
};

}  // namespace

CursorPtr make_map_cursor(const MapNode& map, CursorPtr before, PipelineContext& context, CursorNeeds needs) {
  return std::make_unique<MapCursor>(map, std::move(before), context, needs);
}
CursorPtr make_filter_cursor(const FilterNode& filter, CursorPtr before, PipelineContext& context) {
  return std::make_unique<FilterCursor>(filter, std::move(before), context);
}
CursorPtr make_slice_cursor(const SliceNode& slice, CursorPtr before) {
  return std::make_unique<SliceCursor>(slice, std::move(before));
}
CursorPtr make_repeat_cursor(const RepeatNode& repeat, CursorPtr before, PipelineContext& context, CursorNeeds needs) {
  return std::make_unique<RepeatCursor>(repeat, std::move(before), context, needs);
}

}  // namespace sectionflow
