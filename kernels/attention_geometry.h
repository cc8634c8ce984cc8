#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "base/host_device.h"
#include "graph/node.h"
#include "graph/nodes/attention.h"
#include "kernels/formulas/random.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel.h"

namespace sectionflow {

/// What attention is about. A head is one of the N H pairs of image and head of the queries; `group` of them, which
/// follow one another, read one of the N G heads of keys and values.
struct AttentionGeometry {
  std::int64_t heads, queries, keys, width;  // N H, T, S, D
  std::int64_t heads_of_image, group;        // H, H / G
  bool bounded;                              // a query sees keys up to one alone
  std::int64_t before;                       // keys in front of the last one that the first query sees
  std::int64_t window;                       // keys that it sees up to its own place, or 0 where it sees all of them
  std::int64_t place;                        // the key at which the first query stands
  float scale;

  AttentionGeometry(const Shape& q, const Shape& k, const AttentionNodeOptions& options)
      : heads(q[0] * q[1]),
        queries(q[2]),
        keys(k[2]),
        width(q[3]),
        heads_of_image(q[1] > 0 ? q[1] : 1),
        group(q[1] > 0 && k[1] > 0 ? q[1] / k[1] : 1),
        bounded(options.is_bounded()),
        before(options.alignment == CausalAlignment::last_key ? keys - queries : 0),
        window(options.window < queries + keys ? options.window : queries + keys),
        place(before),
        scale(options.scale ? *options.scale : static_cast<float>(1.0 / std::sqrt(static_cast<double>(q[3])))) {
    if (window > 0 && !options.causal) before += window - 1;  // as many keys behind its own as in front of it
  }

  SF_HOST_DEVICE std::int64_t key_heads() const { return heads / group; }

  /// The end of the keys that query `query` sees, of the first `limit`.
  SF_HOST_DEVICE std::int64_t keys_of(std::int64_t query, std::int64_t limit) const {
    return bounded && before + query + 1 < limit ? before + query + 1 : limit;
  }
  /// The first key that query `query` sees, if it sees any.
  SF_HOST_DEVICE std::int64_t first_key_of(std::int64_t query) const {
    return window > 0 && query + place + 1 > window ? query + place + 1 - window : 0;
  }
  /// The first query that sees key `key`, or `queries`.
  SF_HOST_DEVICE std::int64_t first_query_of(std::int64_t key) const {
    if (!bounded || key <= before) return 0;
    return key - before < queries ? key - before : queries;
  }
  /// The end of the queries that see one of the keys up to `key`.
  SF_HOST_DEVICE std::int64_t queries_of(std::int64_t key) const {
    return window > 0 && key - place + window < queries ? key - place + window : queries;
  }
};

/// The logarithm of a sum of no exponentials: as far below as an infinity, which value checks would refuse.
inline constexpr float kLogOfNothing = std::numeric_limits<float>::lowest();

/// What the optional inputs of one launch hide of the keys, and add to scores.
struct AttentionMask {
  const std::int32_t* short_lengths = nullptr;                 // [N], or
  const std::int64_t* long_lengths = nullptr;                  // [N]
  const bool* shows = nullptr;                                 // the mask, where it is boolean
  const float* added = nullptr;                                // the mask, where it is f32
  std::int64_t image_step = 0, head_step = 0, query_step = 0;  // of the mask; 0 along axes of 1

  SF_HOST_DEVICE bool has_mask() const { return shows != nullptr || added != nullptr; }
  /// How many of the `keys` keys of an image there are.
  SF_HOST_DEVICE std::int64_t keys_of(std::int64_t image, std::int64_t keys) const {
    std::int64_t length = keys;
    if (short_lengths != nullptr) length = short_lengths[image];
    if (long_lengths != nullptr) length = long_lengths[image];
    return length < 0 ? 0 : (length < keys ? length : keys);
  }
  /// Where the mask's row of a query is.
  SF_HOST_DEVICE std::int64_t row_of(const AttentionGeometry& g, std::int64_t head, std::int64_t query) const {
    return head / g.heads_of_image * image_step + head % g.heads_of_image * head_step + query * query_step;
  }
  /// The score of a key whose place in the mask is `at`.
  SF_HOST_DEVICE float masked(float score, std::int64_t at) const {
    if (added != nullptr) return score + added[at];
    return shows == nullptr || shows[at] ? score : -std::numeric_limits<float>::infinity();
  }
};

/// Which inputs of a node limit what its queries see, from where a launch finds them.
struct AttentionLimits {
  AttentionInputs at;
  bool lengths_are_long = false, mask_is_added = false;
  AttentionMask steps{};

  /// `first`: as AttentionInputs.
  AttentionLimits(const KernelRequest& request, int first)
      : at(request.inputs, first, request.node.options<AttentionNodeOptions>().drops()) {
    if (at.key_lengths >= 0) lengths_are_long = type(request, at.key_lengths).dtype == Dtype::i64;
    if (at.mask < 0) return;
    const Shape& mask = type(request, at.mask).shape;
    mask_is_added = type(request, at.mask).dtype == Dtype::f32;
    const int rank = mask.rank();
    std::int64_t step = mask[-1];
    for (int axis = 2; axis >= 4 - rank; --axis) {
      const std::int64_t size = mask[axis - 4 + rank];
      (axis == 2 ? steps.query_step : axis == 1 ? steps.head_step : steps.image_step) = size > 1 ? step : 0;
      step *= size;
    }
  }
  bool any() const { return at.key_lengths >= 0 || at.mask >= 0; }
  bool has_lengths() const { return at.key_lengths >= 0; }

  AttentionMask of(const KernelArguments& arguments) const {
    AttentionMask mask = steps;
    const auto input = [&](int index) { return arguments.inputs[static_cast<std::size_t>(index)]; };
    if (has_lengths() && lengths_are_long) mask.long_lengths = static_cast<const std::int64_t*>(input(at.key_lengths));
    if (has_lengths() && !lengths_are_long)
      mask.short_lengths = static_cast<const std::int32_t*>(input(at.key_lengths));
    if (at.mask >= 0 && mask_is_added) mask.added = static_cast<const float*>(input(at.mask));
    if (at.mask >= 0 && !mask_is_added) mask.shows = static_cast<const bool*>(input(at.mask));
    return mask;
  }

 private:
  static const TensorType& type(const KernelRequest& request, int index) {
    return request.inputs[static_cast<std::size_t>(index)];
  }
};

/// Which probabilities a node drops: that of key s of query t of head h has the place (h T + t) S + s among random
/// words, as if they lay there as a whole.
struct AttentionDrop {
  bool drops = false;
  std::uint32_t ordinal = 0;
  formulas::Drop drop{0.0F};

  /// `ordinal`: of the forward node. `is_training`: the number of that input.
  AttentionDrop(const KernelRequest& request, int is_training, std::uint32_t of_node) : ordinal(of_node) {
    const auto& options = request.node.options<AttentionNodeOptions>();
    drops = options.drops() && host_boolean(request, static_cast<std::size_t>(is_training));
    if (drops) drop = formulas::Drop(options.dropout);
  }
};

/// The pairs of a kernel that writes its first output, which has the queries' shape, tile by tile when nothing of the
/// tile is read any more, while other tiles still read keys, values and the mask. So it may lie over those of `inputs`
/// that are none of these: one value may be several inputs. `keys`: the input with the keys; the values follow.
inline std::vector<InPlace> attention_pairs(const Node& node, std::initializer_list<int> inputs, int keys, int mask) {
  const auto value = [&](int index) { return node.inputs()[static_cast<std::size_t>(index)]; };
  std::vector<InPlace> pairs;
  for (int input : inputs) {
    const bool is_read =
        value(input) == value(keys) || value(input) == value(keys + 1) || (mask >= 0 && value(input) == value(mask));
    if (!is_read) pairs.push_back({.input = input, .output = 0});
  }
  return pairs;
}

}  // namespace sectionflow
