// A source whose examples are had by number, and all operations on it that keep that: where an example comes from is
// worked out without making any other.

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "data/permutation.h"
#include "data/pipeline/cursor.h"

namespace sectionflow {
namespace {

/// Where a map finds an example: what its random words depend on.
struct MapPlace {
  std::int64_t epoch = 0;
  std::int64_t index = 0;
};
/// How an example is made.
struct Way {
  std::int64_t source_index = 0;
  std::vector<MapPlace> maps;  // the last first
  std::int64_t epoch = 0;      // by the outermost repeat
  std::int64_t source_epoch = 0;
};

/// epoch * epochs + lap, for numbers of positions that nobody has checked too.
std::int64_t inner_epoch(std::int64_t epoch, std::int64_t epochs, std::int64_t lap) {
  const auto factor = static_cast<std::uint64_t>(epochs == kEndless ? 1 : epochs);
  const std::uint64_t inner = static_cast<std::uint64_t>(epoch) * factor + static_cast<std::uint64_t>(lap);
  return static_cast<std::int64_t>(inner & std::numeric_limits<std::int64_t>::max());
}

/// One operation, seen from behind: which number it asks for.
struct IndexStep {
  const PipelineNode* node = nullptr;
  ErrorPolicy policy = ErrorPolicy::fail;
  // Of a shuffle: orders of epochs. All are kept where a shuffle behind a repeat asks for them in any order, which
  // takes as much as its own order; else the last two.
  bool keep_orders = false;
  std::map<std::int64_t, std::vector<std::uint32_t>> orders = {};

  const std::vector<std::uint32_t>& order(std::int64_t epoch) {
    const auto known = orders.find(epoch);
    if (known != orders.end()) return known->second;
    if (!keep_orders && orders.size() >= 2) orders.erase(orders.begin());
    const auto& options = std::get<ShuffleOptions>(node->operation);
    return orders.emplace(epoch, epoch_order(*node->size, options.seed, epoch)).first->second;
  }
};

class IndexedCursor : public Cursor {
 public:
  IndexedCursor(const PipelineNode& last, PipelineContext& context, CursorNeeds needs)
      : context_(context), recipes_(needs.recipes), size_(*last.size == kEndless ? kMostExamples : *last.size) {
    int threads = 1;
    std::size_t max_bytes = 0;
    bool shuffled_behind = false;
    policy_ = needs.policy;
    const PipelineNode* node = &last;
    for (; node->before != nullptr; node = node->before.get()) {
      if (const auto* policy = std::get_if<ErrorPolicy>(&node->operation)) {
        policy_ = *policy;
        continue;
      }
      if (std::holds_alternative<PrefetchOptions>(node->operation)) continue;
      steps_.push_back({.node = node, .policy = policy_, .keep_orders = shuffled_behind});
      shuffled_behind = shuffled_behind || std::holds_alternative<ShuffleOptions>(node->operation);
      if (const auto* repeat = std::get_if<RepeatNode>(&node->operation)) {
        if (repeat->epochs == kEndless) lap_ = node->before->size;
      }
      if (const auto* map = std::get_if<MapNode>(&node->operation)) {
        threads = std::max(threads, map->options.threads);
        max_bytes = std::max(max_bytes, map->options.max_bytes);
      }
    }
    source_ = std::get<std::shared_ptr<const IndexedSource>>(node->operation).get();
    always_there_ = policy_ == ErrorPolicy::fail &&
                    std::all_of(steps_.begin(), steps_.end(),
                                [](const IndexStep& step) { return step.policy == ErrorPolicy::fail; });
    if (threads > 1) work_.emplace(context.pool(), static_cast<std::size_t>(4 * threads), max_bytes);
  }

  void begin(std::int64_t epoch) override { stand_at(epoch, 0); }

  bool next(PipelineItem& item) override {
    std::int64_t missing = 0;
    while (!context_.is_stopping()) {
      std::optional<Example> example;
      Ticket ticket;
      if (work_) {
        while (has_more() && work_->has_capacity()) submit_next();
        if (tickets_.empty()) return false;
        ticket = tickets_.front();
        tickets_.pop_front();
        example = work_->take();
      } else {
        if (!has_more()) return false;
        const Way way = way_to(epoch_, next_);
        ticket = {next_++, way.epoch};
        example = make(way);
      }
      delivered_ = ticket.index + 1;
      if (example) {
        item = {std::move(*example), {}, ticket.epoch, 1};
        if (recipes_) item.recipe.push_back(ticket.index);
        return true;
      }
      SF_CHECK_CODE(!lap_ || ++missing < *lap_, ArgumentError, ErrorCode::nothing_to_repeat, source_->name(),
                    " is repeated for ever, but all of its ", *lap_,
                    " examples are left out: ", context_.skipped().last);
    }
    return false;
  }

  std::int64_t skip(std::int64_t count) override {
    if (!always_there_) return Cursor::skip(count);
    // Without workers nothing would have been made of what is left out: what they have thrown goes with it.
    std::int64_t skipped = 0;
    for (; skipped < count && !tickets_.empty(); ++skipped) {
      delivered_ = tickets_.front().index + 1;
      tickets_.pop_front();
      work_->drop();
    }
    if (skipped == count) return skipped;
    const std::int64_t not_made = std::clamp<std::int64_t>(size_ - next_, 0, count - skipped);
    next_ += not_made;
    delivered_ = next_;
    return skipped + not_made;
  }

  void save(StateWriter& state) const override { state.number(delivered_); }
  void restore(std::int64_t epoch, StateReader& state) override {
    stand_at(epoch, state.next());  // behind the end where a longer run was broken off
  }
  PipelineItem remake(std::int64_t epoch, RecipeReader& recipe) override {
    const std::int64_t index = recipe.next(size_);
    const Way way = way_to(epoch, index);
    std::optional<Example> example = make(way);
    if (!example) throw_damaged_position("an example that was there is left out now");
    return {std::move(*example), {}, way.epoch, 1};
  }

 private:
  struct Ticket {
    std::int64_t index = 0;
    std::int64_t epoch = 0;
  };

  void stand_at(std::int64_t epoch, std::int64_t index) {
    if (work_) work_->clear();
    tickets_.clear();
    epoch_ = epoch;
    next_ = delivered_ = index;
  }

  bool has_more() const { return next_ < size_; }

  void submit_next() {
    Way way = way_to(epoch_, next_);
    tickets_.push_back({next_, way.epoch});
    work_->submit([this, way = std::move(way)](Example) { return make(way); }, {});
    ++next_;
  }

  Way way_to(std::int64_t epoch, std::int64_t index) {
    Way way{.source_index = 0, .maps = {}, .epoch = epoch, .source_epoch = 0};
    bool repeated = false;
    for (IndexStep& step : steps_) {
      const Operation& operation = step.node->operation;
      if (std::holds_alternative<MapNode>(operation)) {
        way.maps.push_back({epoch, index});
      } else if (std::holds_alternative<ShuffleOptions>(operation)) {
        index = step.order(epoch)[static_cast<std::size_t>(index)];
      } else if (const auto* slice = std::get_if<SliceNode>(&operation)) {
        index = slice->first + index * slice->step;  // add_operation has seen to it that this is in range
      } else if (const auto* split = std::get_if<SplitNode>(&operation)) {
        index = (*split->chosen)[static_cast<std::size_t>(index)];
      } else if (const auto* repeat = std::get_if<RepeatNode>(&operation)) {
        const std::int64_t lap_size = *step.node->before->size;
        if (lap_size == kEndless) continue;  // the first lap has no end
        if (!repeated) way.epoch = index / lap_size;
        repeated = true;
        epoch = inner_epoch(epoch, repeat->epochs, index / lap_size);
        index %= lap_size;
      }
    }
    way.source_index = index;
    way.source_epoch = epoch;
    return way;
  }

  /// Threads: any number at once.
  std::optional<Example> make(const Way& way) const {
    std::optional<Example> example;
    try {
      example = source_->at(way.source_index);
    } catch (DataError& error) {
      error.add_fact("example", text_of(way.source_index, " of ", source_->name()));
      if (!leaves_out(policy_, error)) throw;
      context_.count_skipped({source_, way.source_epoch, way.source_index}, error.what(), false);
      return std::nullopt;
    }
    std::size_t place = way.maps.size();
    for (auto step = steps_.rbegin(); step != steps_.rend() && example; ++step) {
      const auto* map = std::get_if<MapNode>(&step->node->operation);
      if (map == nullptr) continue;
      const MapPlace& at = way.maps[--place];
      example = map_example(*map, std::move(*example), at.epoch, at.index, step->policy, context_);
    }
    return example;
  }

  PipelineContext& context_;
  const bool recipes_;
  const std::int64_t size_;
  std::optional<std::int64_t> lap_;  // examples of an epoch that is repeated for ever
  const IndexedSource* source_ = nullptr;
  ErrorPolicy policy_ = ErrorPolicy::fail;  // of the source
  bool always_there_ = true;                // whether no example is ever left out
  std::vector<IndexStep> steps_;            // the last operation first

  std::int64_t epoch_ = 0;
  std::int64_t next_ = 0;            // to be made
  std::int64_t delivered_ = 0;       // behind what next() gave last
  std::deque<Ticket> tickets_;       // of work_, in order
  std::optional<OrderedWork> work_;  // last: its tasks use what stands above
};

}  // namespace

CursorPtr make_indexed_cursor(const PipelineNode& node, PipelineContext& context, CursorNeeds needs) {
  return std::make_unique<IndexedCursor>(node, context, needs);
}

}  // namespace sectionflow
