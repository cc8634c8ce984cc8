// Stages that hold examples: the buffer of a shuffle, batches, and buckets by length.

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/random.h"
#include "data/permutation.h"
#include "data/pipeline/batch_examples.h"
#include "data/pipeline/cursor.h"

namespace sectionflow {
namespace {

/// Makes held examples again, in the order in which they came: a source that is read from its start is read once.
std::vector<PipelineItem> remake_all(Cursor& before, std::int64_t epoch, const std::vector<Recipe>& recipes) {
  std::vector<std::size_t> order(recipes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::lexicographical_compare(recipes[a].rbegin(), recipes[a].rend(), recipes[b].rbegin(), recipes[b].rend());
  });
  std::vector<PipelineItem> items(recipes.size());
  for (std::size_t place : order) {
    RecipeReader reader(recipes[place]);
    items[place] = before.remake(epoch, reader);
    if (!reader.at_end()) throw_damaged_position("the recipe of an example is too long");
  }
  return items;
}

/// Restores what comes before, and the lists of items that are held.
std::vector<std::vector<PipelineItem>> restore_lists(Cursor& before, std::int64_t epoch, StateReader& state,
                                                     RecipeLog& log) {
  StateReader again = state;
  before.restore(epoch, state);
  log.reset(state.lists(log.lists().size()));
  std::vector<std::vector<PipelineItem>> lists;
  bool any = false;
  for (const std::vector<Recipe>& recipes : log.lists()) {
    lists.push_back(remake_all(before, epoch, recipes));
    any = any || !recipes.empty();
  }
  if (any) before.restore(epoch, again);  // where making them has led it away
  return lists;
}

class ShuffleCursor : public Cursor {
 public:
  ShuffleCursor(const ShuffleOptions& options, CursorPtr before, CursorNeeds needs)
      : options_(options), before_(std::move(before)), recipes_(needs.recipes), log_(1) {}

  void begin(std::int64_t epoch) override {
    hold({}, epoch, 0);
    log_.reset(RecipeLists(1));
    before_->begin(epoch);
  }

  bool next(PipelineItem& item) override {
    PipelineItem come;
    while (!ended_ && held_bytes_ < options_.buffer_bytes) {
      ended_ = !before_->next(come);
      if (ended_) break;
      held_bytes_ += counted_bytes(come.example);
      log_.push(0, std::move(come.recipe));
      held_.push_back(std::move(come));
    }
    if (held_.empty()) return false;
    const std::array<std::uint32_t, 4> words =
        random_words({options_.seed, kShuffleNode, static_cast<std::uint32_t>(epoch_)}, drawn_ / 4);
    const auto place = static_cast<std::size_t>(
        below_from_word(words[drawn_ % 4], static_cast<std::int64_t>(std::min<std::size_t>(held_.size(), 1U << 31))));
    ++drawn_;
    Recipe recipe = log_.take(0, place);
    item = std::move(held_[place]);
    if (place + 1 != held_.size()) held_[place] = std::move(held_.back());
    held_.pop_back();
    held_bytes_ -= counted_bytes(item.example);
    item.recipe.clear();
    if (recipes_) item.recipe = std::move(recipe);
    return true;
  }

  void save(StateWriter& state) const override {
    state.number(static_cast<std::int64_t>(drawn_));
    before_->save(state);
    state.lists(log_);
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    const auto drawn = static_cast<std::uint64_t>(state.next());
    auto lists = restore_lists(*before_, epoch, state, log_);
    hold(std::move(lists[0]), epoch, drawn);
  }
  PipelineItem remake(std::int64_t epoch, RecipeReader& recipe) override { return before_->remake(epoch, recipe); }

 private:
  void hold(std::vector<PipelineItem> items, std::int64_t epoch, std::uint64_t drawn) {
    held_ = std::move(items);
    held_bytes_ = 0;
    for (const PipelineItem& item : held_) held_bytes_ += counted_bytes(item.example);
    epoch_ = epoch;
    drawn_ = drawn;
    ended_ = false;
  }

  const ShuffleOptions& options_;
  const CursorPtr before_;
  const bool recipes_;
  std::int64_t epoch_ = 0;
  std::uint64_t drawn_ = 0;
  std::vector<PipelineItem> held_;  // their recipes are those of log_
  std::size_t held_bytes_ = 0;
  bool ended_ = false;
  RecipeLog log_;
};

/// A batch of items, and the recipe to make it again: those of its items, and how many they are.
PipelineItem batch_item(std::vector<PipelineItem> items, const BatchOptions& options, BatchMemory* memory = nullptr) {
  PipelineItem batch;
  batch.num_examples = 0;
  std::vector<Example> examples;
  examples.reserve(items.size());
  for (PipelineItem& item : items) {
    examples.push_back(std::move(item.example));
    batch.num_examples += item.num_examples;
    batch.epoch = item.epoch;
  }
  batch.example = batch_of(std::move(examples), options, memory);
  return batch;
}
/// Where batches that are delivered are made. Those that a stage behind holds are no reason to fill it.
std::shared_ptr<BatchMemory> memory_for(const PipelineContext& context, bool recipes) {
  return recipes ? nullptr : context.batch_memory();
}
Recipe batch_recipe(const std::vector<Recipe>& recipes) {
  Recipe all;
  for (const Recipe& recipe : recipes) all.insert(all.end(), recipe.begin(), recipe.end());
  all.push_back(static_cast<std::int64_t>(recipes.size()));
  return all;
}
PipelineItem remake_batch(Cursor& before, std::int64_t epoch, RecipeReader& recipe, const BatchOptions& options) {
  const std::int64_t count = recipe.next();
  std::vector<PipelineItem> items;
  // Each takes a number of the recipe, which ends where the count is a lie.
  for (std::int64_t i = 0; i < count; ++i) items.push_back(before.remake(epoch, recipe));
  if (items.empty()) throw_damaged_position("the recipe of a batch is empty");
  std::reverse(items.begin(), items.end());
  return batch_item(std::move(items), options);
}

class BatchCursor : public Cursor {
 public:
  BatchCursor(const BatchOptions& options, CursorPtr before, PipelineContext& context, CursorNeeds needs)
      : options_(options), before_(std::move(before)), context_(context), recipes_(needs.recipes) {}

  void begin(std::int64_t epoch) override { before_->begin(epoch); }

  bool next(PipelineItem& item) override {
    std::vector<PipelineItem> items;
    PipelineItem come;
    while (static_cast<std::int64_t>(items.size()) < options_.size && before_->next(come)) {
      items.push_back(std::move(come));
    }
    if (items.empty() || is_dropped(static_cast<std::int64_t>(items.size()))) return false;
    Recipe recipe;
    if (recipes_) {
      std::vector<Recipe> all;
      for (PipelineItem& one : items) all.push_back(std::move(one.recipe));
      recipe = batch_recipe(all);
    }
    item = batch_item(std::move(items), options_, memory_for(context_, recipes_).get());
    item.recipe = std::move(recipe);
    return true;
  }
  std::int64_t skip(std::int64_t count) override {
    std::int64_t skipped = 0;
    while (skipped < count) {
      const std::int64_t there = before_->skip(options_.size);
      if (there == 0 || is_dropped(there)) break;
      ++skipped;
    }
    return skipped;
  }

  void save(StateWriter& state) const override { before_->save(state); }
  void restore(std::int64_t epoch, StateReader& state) override { before_->restore(epoch, state); }
  PipelineItem remake(std::int64_t epoch, RecipeReader& recipe) override {
    return remake_batch(*before_, epoch, recipe, options_);
  }

 private:
  bool is_dropped(std::int64_t count) const { return options_.drop_remainder && count < options_.size; }

  const BatchOptions& options_;
  const CursorPtr before_;
  const PipelineContext& context_;
  const bool recipes_;
};

class BucketCursor : public Cursor {
 public:
  BucketCursor(const BatchOptions& options, CursorPtr before, PipelineContext& context, CursorNeeds needs)
      : options_(options),
        before_(std::move(before)),
        context_(context),
        recipes_(needs.recipes),
        buckets_(options.bucket_boundaries.size() + 1),
        log_(buckets_.size()) {}

  void begin(std::int64_t epoch) override {
    for (auto& bucket : buckets_) bucket.clear();
    log_.reset(RecipeLists(buckets_.size()));
    ended_ = false;
    before_->begin(epoch);
  }

  bool next(PipelineItem& item) override {
    PipelineItem come;
    while (!ended_) {
      ended_ = !before_->next(come);
      if (ended_) break;
      const std::size_t bucket = bucket_of(come.example, options_);
      log_.push(bucket, std::move(come.recipe));
      buckets_[bucket].push_back(std::move(come));
      if (static_cast<std::int64_t>(buckets_[bucket].size()) == options_.size) {
        deliver(bucket, item);
        return true;
      }
    }
    if (options_.drop_remainder) return false;
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      if (buckets_[bucket].empty()) continue;
      deliver(bucket, item);
      return true;
    }
    return false;
  }

  void save(StateWriter& state) const override {
    before_->save(state);
    state.lists(log_);
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    buckets_ = restore_lists(*before_, epoch, state, log_);
    ended_ = false;
    for (const auto& bucket : buckets_) {
      if (static_cast<std::int64_t>(bucket.size()) >= options_.size) throw_damaged_position("a bucket is full");
    }
  }
  PipelineItem remake(std::int64_t epoch, RecipeReader& recipe) override {
    return remake_batch(*before_, epoch, recipe, options_);
  }

 private:
  void deliver(std::size_t bucket, PipelineItem& item) {
    const std::vector<Recipe> recipes = log_.take_all(bucket);
    std::vector<PipelineItem> items = std::move(buckets_[bucket]);
    buckets_[bucket].clear();
    item = batch_item(std::move(items), options_, memory_for(context_, recipes_).get());
    if (recipes_) item.recipe = batch_recipe(recipes);
  }

  const BatchOptions& options_;
  const CursorPtr before_;
  const PipelineContext& context_;
  const bool recipes_;
  std::vector<std::vector<PipelineItem>> buckets_;  // their recipes are those of log_
  bool ended_ = false;
  RecipeLog log_;
};

}  // namespace

CursorPtr make_shuffle_cursor(const ShuffleOptions& options, CursorPtr before, CursorNeeds needs) {
  return std::make_unique<ShuffleCursor>(options, std::move(before), needs);
}
CursorPtr make_batch_cursor(const BatchOptions& options, CursorPtr before, PipelineContext& context,
                            CursorNeeds needs) {
  return std::make_unique<BatchCursor>(options, std::move(before), context, needs);
}
CursorPtr make_bucket_cursor(const BatchOptions& options, CursorPtr before, PipelineContext& context,
                             CursorNeeds needs) {
  return std::make_unique<BucketCursor>(options, std::move(before), context, needs);
}

}  // namespace sectionflow
