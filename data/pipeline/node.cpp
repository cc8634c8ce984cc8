#include "data/pipeline/node.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/checked_arithmetic.h"
#include "data/permutation.h"

namespace sectionflow {
namespace {

using MaybeSize = std::optional<std::int64_t>;
constexpr int kMostThreads = 1024;

bool is_ordered(const BatchOptions& options) {
  return options.bucket_boundaries.empty();
}

/// Refuses options outside their range, and counts what the operation gives of `before`, its examples in an epoch.
struct CheckAndCount {
  MaybeSize before;
  bool indexed_before;

  MaybeSize operator()(const std::shared_ptr<const IndexedSource>& source) const {
    SF_CHECK(source != nullptr, ArgumentError, "Dataset::from got no source");
    const std::int64_t size = source->size();
    SF_CHECK(size >= 0, ArgumentError, "Dataset::from: the source ", source->name(), " has ", size, " examples");
    return size;
  }
  MaybeSize operator()(const std::shared_ptr<const StreamSource>& source) const {
    SF_CHECK(source != nullptr, ArgumentError, "Dataset::from got no source");
    return source->size();
  }
  MaybeSize operator()(const MapNode& map) const {
    SF_CHECK(map.function.valid(), ArgumentError, "Dataset::map got no function");
    SF_CHECK(map.options.threads >= 1 && map.options.threads <= kMostThreads, ArgumentError,
             "Dataset::map: threads is ", map.options.threads, "; wanted 1 to ", kMostThreads);
    return before;
  }
  MaybeSize operator()(const FilterNode& filter) const {
    SF_CHECK(filter.keep != nullptr, ArgumentError, "Dataset::filter got no function");
    if (before == 0) return 0;
    return std::nullopt;
  }
  MaybeSize operator()(const ShuffleOptions& options) const {
    SF_CHECK(options.buffer_bytes > 0, ArgumentError, "Dataset::shuffle: buffer_bytes is 0; wanted 1 or more");
    if (!indexed_before || !before || *before == kEndless) return before;
    const std::size_t bytes = static_cast<std::size_t>(std::min(*before, kMaxPermuted)) * sizeof(std::uint32_t);
    SF_CHECK(*before <= kMaxPermuted && bytes <= options.buffer_bytes, ArgumentError, "Dataset::shuffle: an order of ",
             *before, " examples takes ", bytes_text(bytes), ", buffer_bytes is ", bytes_text(options.buffer_bytes),
             hint("give it ", bytes, " bytes, at most 2^32 examples, or have each reader shuffle its shard"));
    return before;
  }
  MaybeSize operator()(const BatchOptions& options) const {
    SF_CHECK(options.size >= 1, ArgumentError, "Dataset::batch: size is ", options.size, "; wanted 1 or more");
    const std::vector<std::int64_t>& boundaries = options.bucket_boundaries;
    SF_CHECK(boundaries.empty() == options.bucket_by.empty(), ArgumentError, "Dataset::batch: bucket_boundaries has ",
             boundaries.size(), " lengths and bucket_by is '", options.bucket_by,
             "'; wanted both or neither: lengths, and the tensor that they are of");
    const bool rising =
        std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>()) == boundaries.end();
    SF_CHECK(rising && (boundaries.empty() || boundaries[0] >= 1), ArgumentError,
             "Dataset::batch: bucket_boundaries wants rising lengths from 1 on");
    SF_CHECK(options.pad || options.pad_values.empty(), ArgumentError,
             "Dataset::batch: pad_values are given and pad is false; wanted pad = true");
    SF_CHECK(options.max_padded_bytes > 0, ArgumentError, "Dataset::batch: max_padded_bytes is 0; wanted 1 or more");
    if (before == 0) return 0;
    if (!is_ordered(options) || !before || *before == kEndless) return is_ordered(options) ? before : std::nullopt;
    return *before / options.size + (*before % options.size != 0 && !options.drop_remainder ? 1 : 0);
  }
  MaybeSize operator()(const RepeatNode& repeat) const {
    SF_CHECK(repeat.epochs >= 0 || repeat.epochs == kEndless, ArgumentError, "Dataset::repeat: epochs is ",
             repeat.epochs, "; wanted 0 or more, or kEndless");
    SF_CHECK_CODE(before != 0 || repeat.epochs != kEndless, ArgumentError, ErrorCode::nothing_to_repeat,
                  "Dataset::repeat: what comes before has no example and would be repeated for ever");
    if (repeat.epochs == 0 || before == 0) return 0;
    if (repeat.epochs == kEndless) return kEndless;  // an unknown number of examples too: of none it is an error
    if (!before || *before == kEndless || repeat.epochs == 1) return before;
    return checked_multiply(*before, repeat.epochs);
  }
  MaybeSize operator()(const SliceNode& slice) const {
    SF_CHECK(!slice.count || *slice.count >= 0, ArgumentError, "Dataset::take: count is ", *slice.count,
             "; wanted 0 or more");
    SF_CHECK(slice.step >= 1 && slice.first >= 0 && (slice.step == 1 || slice.first < slice.step), ArgumentError,
             slice.step == 1 ? "Dataset::skip: count is " : "Dataset::shard: index is ", slice.first,
             "; wanted 0 or more", slice.step == 1 ? "" : text_of(", below the count ", slice.step));
    if (!before || *before == kEndless) {
      if (slice.count == 0) return 0;
      return !before ? MaybeSize() : MaybeSize(slice.count.value_or(kEndless));
    }
    const std::int64_t after_first = std::max<std::int64_t>(*before - slice.first, 0);
    const std::int64_t there =
        slice.whole_rounds ? *before / slice.step : after_first / slice.step + (after_first % slice.step != 0 ? 1 : 0);
    return std::min(there, slice.count.value_or(there));
  }
  MaybeSize operator()(const SplitNode& split) const { return static_cast<std::int64_t>(split.chosen->size()); }
  MaybeSize operator()(const PrefetchOptions& options) const {
    SF_CHECK(options.batches >= 1, ArgumentError, "Dataset::prefetch: batches is ", options.batches,
             "; wanted 1 or more");
    return before;
  }
  MaybeSize operator()(ErrorPolicy) const { return before; }
};

/// Whether examples can be had by number behind the operation.
bool stays_indexed(const Operation& operation, const PipelineNode* before) {
  if (before == nullptr) return std::holds_alternative<std::shared_ptr<const IndexedSource>>(operation);
  if (!before->is_indexed) return false;
  if (std::holds_alternative<ShuffleOptions>(operation)) return before->size != kEndless;
  return !std::holds_alternative<FilterNode>(operation) && !std::holds_alternative<BatchOptions>(operation);
}

/// Refuses slices of an endless repeat behind which the last number that a walk asks for does not fit 63 bits: it would
/// ask the source for an example that is none.
void check_reach(const PipelineNode& last) {
  std::int64_t index = (*last.size == kEndless ? kMostExamples : *last.size) - 1;
  for (const PipelineNode* node = &last; node->before != nullptr && index >= 0; node = node->before.get()) {
    const auto* repeat = std::get_if<RepeatNode>(&node->operation);
    if (repeat != nullptr && node->before->size != kEndless) return;  // back within an epoch, which has an end
    const auto* slice = std::get_if<SliceNode>(&node->operation);
    if (slice == nullptr) continue;
    const bool fits =
        !__builtin_mul_overflow(index, slice->step, &index) && !__builtin_add_overflow(index, slice->first, &index);
    SF_CHECK(fits, ArgumentError,
             "Dataset: of what is repeated for ever, the take, skip and shard up to here would ask ", "for example ",
             *last.size == kEndless ? kMostExamples : *last.size, " of those that are left, whose number ",
             "among all does not fit 63 bits",
             hint("shard among fewer readers, skip or take less: an endless walk has ", kMostExamples, " examples"));
  }
}

std::string list_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::int64_t number : numbers) text += text_of(text.empty() ? "" : ",", number);
  return "{" + text + "}";
}

struct Describe {
  bool identity;       // only what a position depends on
  bool epochs_matter;  // whether the number of epochs decides what is delivered where
  bool held_behind;    // whether examples are held, or brought into another order, behind it
  bool indexed_before;

  std::string operator()(const std::shared_ptr<const IndexedSource>& source) const {
    return text_of(identity ? source->identity() : source->name(), ": ", source->size(), " examples");
  }
  std::string operator()(const std::shared_ptr<const StreamSource>& source) const {
    return identity ? source->identity() : source->name();
  }
  std::string operator()(const MapNode& map) const {
    std::string text = "map(" + map.function.name();
    const auto add = [&](const std::string& part) { text += (text.back() == '(' ? "" : ", ") + part; };
    if (map.function.is_seeded()) add(text_of("seed ", map.options.seed));
    if (!identity && map.options.threads > 1) add(text_of(map.options.threads, " threads"));
    return text + ")";
  }
  std::string operator()(const FilterNode& filter) const { return "filter(" + filter.name + ")"; }
  std::string operator()(const ShuffleOptions& options) const {
    const std::string seed = text_of("shuffle(seed ", options.seed);
    return indexed_before ? seed + ")" : text_of(seed, ", buffer of ", options.buffer_bytes, " bytes)");
  }
  std::string operator()(const BatchOptions& options) const {
    std::string text = text_of("batch(size ", options.size);
    if (options.drop_remainder) text += ", drop_remainder";
    if (options.pad) text += ", pad";
    for (const auto& [name, value] : options.pad_values) text += text_of(" ", name, " by ", value);
    if (!is_ordered(options)) {
      text += text_of(", buckets of '", options.bucket_by, "' ", list_text(options.bucket_boundaries));
    }
    return text + ")";
  }
  std::string operator()(const RepeatNode& repeat) const {
    if (identity && !epochs_matter) return "repeat";
    return repeat.epochs == kEndless ? "repeat(for ever)" : text_of("repeat(", repeat.epochs, " epochs)");
  }
  std::string operator()(const SliceNode& slice) const {
    if (slice.count) return text_of("take(", *slice.count, ")");
    if (slice.step == 1 && !slice.whole_rounds) return text_of("skip(", slice.first, ")");
    // Behind a round all readers stand at one place, from which any number of them goes on; counted by number it is
    // the place of as many.
    if (identity && slice.whole_rounds && !held_behind) {
      return indexed_before ? text_of("shard(", slice.step, " readers, drop_remainder)") : "shard(drop_remainder)";
    }
    return text_of("shard(", slice.step, " readers, number ", slice.first,
                   slice.whole_rounds ? ", drop_remainder)" : ")");
  }
  std::string operator()(const SplitNode& split) const {
    return text_of("split(", split.is_validation ? "validation" : "train", ", ", split.options.validation,
                   " for validation, seed ", split.options.seed, ")");
  }
  std::string operator()(const PrefetchOptions& options) const {
    if (identity) return "";
    return text_of("prefetch(", options.batches, " batches, ", bytes_text(options.max_bytes), ")");
  }
  std::string operator()(ErrorPolicy policy) const {
    static const char* names[] = {"fail", "skip_record", "skip_file"};
    return text_of("on_error(", names[static_cast<int>(policy)], ")");
  }
};

std::vector<std::string> lines(const PipelineNode& last, bool identity) {
  std::vector<std::string> lines;
  bool reordered_behind = false, held_behind = false;
  for (const PipelineNode* node = &last; node != nullptr; node = node->before.get()) {
    const bool indexed_before = node->before != nullptr && node->before->is_indexed && node->is_indexed;
    std::string line = std::visit(Describe{identity, reordered_behind, held_behind, indexed_before}, node->operation);
    if (!line.empty()) lines.push_back(std::move(line));
    const auto* batch = std::get_if<BatchOptions>(&node->operation);
    const bool shuffles = std::holds_alternative<ShuffleOptions>(node->operation);
    held_behind = held_behind || shuffles || (batch != nullptr && !is_ordered(*batch));
    reordered_behind = reordered_behind || shuffles || std::holds_alternative<RepeatNode>(node->operation);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

}  // namespace

std::shared_ptr<const PipelineNode> add_operation(Operation operation, std::shared_ptr<const PipelineNode> before) {
  auto node = std::make_shared<PipelineNode>();
  MaybeSize size_before;
  if (before != nullptr) size_before = before->size;
  node->size = std::visit(CheckAndCount{size_before, before != nullptr && before->is_indexed}, operation);
  node->is_indexed = stays_indexed(operation, before.get());
  node->num_maps = before == nullptr ? 0 : before->num_maps;
  if (auto* map = std::get_if<MapNode>(&operation)) map->random_node = kShuffleNode - ++node->num_maps;
  node->operation = std::move(operation);
  node->before = std::move(before);
  if (node->is_indexed && std::holds_alternative<SliceNode>(node->operation)) check_reach(*node);
  return node;
}

std::array<SplitNode, 2> split_nodes(const PipelineNode& before, const SplitOptions& options) {
  SF_CHECK(options.validation > 0 && options.validation < 1, ArgumentError, "Dataset::split: validation is ",
           options.validation, "; wanted a share above 0 and below 1, as in 0.1");
  for (const PipelineNode* node = &before; node != nullptr; node = node->before.get()) {
    const bool is_shuffle = std::holds_alternative<ShuffleOptions>(node->operation);
    SF_CHECK(!is_shuffle && !std::holds_alternative<RepeatNode>(node->operation), ArgumentError,
             "Dataset::split stands behind a ", is_shuffle ? "shuffle" : "repeat",
             ", where a place is another example's each epoch", hint("split first"));
  }
  SF_CHECK(before.is_indexed && before.size && *before.size != kEndless, ArgumentError,
           "Dataset::split wants examples that can be had by number; got\n  ", pipeline_lines(before).back(),
           hint("split before filters and batches; give records that are read from their start in files of their own"));
  const std::int64_t size = *before.size;
  SF_CHECK(size >= 2 && size <= kMaxPermuted, ArgumentError, "Dataset::split: ", size,
           " examples; wanted 2 at least, and 2^32 at most");
  SplitNumbers numbers = split_numbers(size, options.validation, options.seed);
  const auto shared = [](std::vector<std::uint32_t>& chosen) {
    return std::make_shared<const std::vector<std::uint32_t>>(std::move(chosen));
  };
  return {SplitNode{options, false, shared(numbers.train)}, SplitNode{options, true, shared(numbers.validation)}};
}

std::vector<std::string> pipeline_lines(const PipelineNode& node) {
  return lines(node, false);
}
std::vector<std::string> identity_lines(const PipelineNode& node) {
  return lines(node, true);
}

int most_threads(const PipelineNode& last) {
  int threads = 1;
  for (const PipelineNode* node = &last; node != nullptr; node = node->before.get()) {
    if (const auto* map = std::get_if<MapNode>(&node->operation)) threads = std::max(threads, map->options.threads);
  }
  return threads;
}

}  // namespace sectionflow
