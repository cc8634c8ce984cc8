#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "data/dataset_options.h"
#include "data/source.h"

namespace sectionflow {

struct MapNode {
  MapFunction function;
  MapOptions options;
  std::uint32_t random_node = 0;  // of its words: each map of a pipeline has another
};
struct FilterNode {
  FilterFunction keep;
  std::string name;
};
struct RepeatNode {
  std::int64_t epochs = kEndless;
};
/// Examples first, first + step, ... of what comes before, `count` of them at most: shard, skip and take.
struct SliceNode {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::optional<std::int64_t> count = {};
  bool whole_rounds = false;  // of `step` examples each, of which one comes only if all are there
};

/// One of the two parts of split: its examples by their numbers, rising.
struct SplitNode {
  SplitOptions options;
  bool is_validation = false;
  std::shared_ptr<const std::vector<std::uint32_t>> chosen;
};

/// Where the walk of an endless pipeline of examples that are had by number ends: behind 10^12 of them.
inline constexpr std::int64_t kMostExamples = std::int64_t{1} << 40;

using Operation =
    std::variant<std::shared_ptr<const IndexedSource>, std::shared_ptr<const StreamSource>, MapNode, FilterNode,
                 ShuffleOptions, BatchOptions, RepeatNode, SliceNode, SplitNode, PrefetchOptions, ErrorPolicy>;

/// A pipeline up to one operation. Never changed once it is made.
struct PipelineNode {
  Operation operation;
  std::shared_ptr<const PipelineNode> before;  // nullptr for a source
  std::optional<std::int64_t> size;            // examples of an epoch where that is known, or kEndless
  bool is_indexed = false;                     // whether its examples can be had by number
  std::uint32_t num_maps = 0;
};

/// Both parts of the examples of a pipeline, the one to learn from first. Throws: ArgumentError as Dataset::split.
std::array<SplitNode, 2> split_nodes(const PipelineNode& before, const SplitOptions& options);

/// The pipeline with one operation more. Throws: ArgumentError for options outside their range.
std::shared_ptr<const PipelineNode> add_operation(Operation operation, std::shared_ptr<const PipelineNode> before);

/// One line for each operation, from the source on.
std::vector<std::string> pipeline_lines(const PipelineNode& node);
/// The same without what does not change what is delivered at a position.
std::vector<std::string> identity_lines(const PipelineNode& node);

/// How many threads the maps of a pipeline want at most.
int most_threads(const PipelineNode& node);

}  // namespace sectionflow
