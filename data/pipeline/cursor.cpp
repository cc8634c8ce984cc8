#include "data/pipeline/cursor.h"

#include <iterator>
#include <utility>

#include "base/error.h"

namespace sectionflow {

std::size_t counted_bytes(const Example& example) {
  constexpr std::size_t kTensorOverhead = 160;  // name, type and the nodes that hold them
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : example) bytes += tensor.num_bytes() + kTensorOverhead;
  return bytes;
}

void PipelineContext::count_skipped(const Place& place, const std::string& error, bool skips_file) {
  const std::lock_guard lock(mutex_);
  auto& epochs = counted_[place.stage];
  if (!epochs[place.epoch].insert(place.index).second) return;
  if (epochs.size() > 2)
    epochs.erase(epochs.begin()->first == place.epoch ? std::next(epochs.begin()) : epochs.begin());
  ++skipped_.records;
  if (skips_file) ++skipped_.files;
  skipped_.last = error;
}

PipelineContext::Skipped PipelineContext::skipped() const {
  const std::lock_guard lock(mutex_);
  return skipped_;
}

std::int64_t Cursor::skip(std::int64_t count) {
  PipelineItem item;
  std::int64_t skipped = 0;
  while (skipped < count && next(item)) ++skipped;
  return skipped;
}

void restore_to(Cursor& cursor, std::int64_t epoch, const CursorState& state) {
  const std::vector<std::int64_t> numbers = state.numbers();
  StateReader reader(numbers);
  cursor.restore(epoch, reader);
}

bool leaves_out(ErrorPolicy policy, const DataError& error) {
  return policy != ErrorPolicy::fail && error.code() != ErrorCode::unreadable_now;
}

std::optional<Example> map_example(const MapNode& map, Example example, std::int64_t epoch, std::int64_t index,
                                   ErrorPolicy policy, PipelineContext& context) {
  try {
    return map.function.apply(std::move(example), {map.options.seed, map.random_node, epoch, index});
  } catch (DataError& error) {
    error.add_fact("example", text_of(index, " of epoch ", epoch));
    if (!leaves_out(policy, error)) throw;
    context.count_skipped({&map, epoch, index}, error.what(), false);
    return std::nullopt;
  } catch (Error& error) {
    error.add_fact("example", text_of(index, " of epoch ", epoch));
    throw;
  }
}

namespace {

/// Makes the stage of one operation behind `before`.
struct StageMaker {
  const PipelineNode& node;
  PipelineContext& context;
  CursorNeeds needs;

  CursorPtr before(bool recipes = false) const {
    return make_cursor(*node.before, context, {needs.policy, needs.recipes || recipes});
  }
  CursorPtr operator()(const std::shared_ptr<const IndexedSource>&) const {
    return make_indexed_cursor(node, context, needs);
  }
  CursorPtr operator()(const std::shared_ptr<const StreamSource>& source) const {
    return make_stream_cursor(*source, context, needs);
  }
  CursorPtr operator()(const MapNode& map) const { return make_map_cursor(map, before(), context, needs); }
  CursorPtr operator()(const FilterNode& filter) const { return make_filter_cursor(filter, before(), context); }
  CursorPtr operator()(const ShuffleOptions& options) const {
    return make_shuffle_cursor(options, before(true), needs);
  }
  CursorPtr operator()(const BatchOptions& options) const {
    if (options.bucket_boundaries.empty()) return make_batch_cursor(options, before(), context, needs);
    return make_bucket_cursor(options, before(true), context, needs);
  }
  CursorPtr operator()(const RepeatNode& repeat) const { return make_repeat_cursor(repeat, before(), context, needs); }
  CursorPtr operator()(const SliceNode& slice) const { return make_slice_cursor(slice, before()); }
  CursorPtr operator()(const SplitNode&) const { return make_indexed_cursor(node, context, needs); }
  CursorPtr operator()(const PrefetchOptions& options) const {
    return make_prefetch_cursor(options, before(), context);
  }
  CursorPtr operator()(ErrorPolicy policy) const { return make_cursor(*node.before, context, {policy, needs.recipes}); }
};

}  // namespace

CursorPtr make_cursor(const PipelineNode& node, PipelineContext& context, CursorNeeds needs) {
  const bool has_own_stage =
      std::holds_alternative<PrefetchOptions>(node.operation) || std::holds_alternative<ErrorPolicy>(node.operation);
  if (node.is_indexed && !has_own_stage) return make_indexed_cursor(node, context, needs);
  return std::visit(StageMaker{node, context, needs}, node.operation);
}

}  // namespace sectionflow
