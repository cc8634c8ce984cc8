// Attention with lengths of keys, windows, masks and groups of heads.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/instruction_set.h"
#include "graph/ops/attention.h"
#include "op_case/case_device.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"

namespace sectionflow::testing_support {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// One kind of attention, plainly.
struct Limited {
  std::string name;
  std::int64_t images, heads, groups, queries, keys, width;
  AttentionOptions options{};
  std::vector<double> lengths{};
  Dtype lengths_dtype = Dtype::i32;
  std::optional<Dtype> mask_dtype{};
  std::vector<std::int64_t> mask{};  // its dimensions

  std::int64_t place() const { return options.alignment == CausalAlignment::last_key ? keys - queries : 0; }
  Shape q_shape() const { return {images, heads, queries, width}; }
  Shape k_shape() const { return {images, groups, keys, width}; }
  /// Of the mask; the same number for all along axes of 1.
  std::size_t mask_at(std::int64_t n, std::int64_t h, std::int64_t t, std::int64_t s) const {
    const auto along = [](std::int64_t size, std::int64_t i) { return size == 1 ? 0 : i; };
    return static_cast<std::size_t>(
        ((along(mask[0], n) * mask[1] + along(mask[1], h)) * mask[2] + along(mask[2], t)) * mask[3] + s);
  }
  bool sees(std::int64_t n, std::int64_t t, std::int64_t s) const {
    const std::int64_t behind = s - place() - t;
    if (options.causal && behind > 0) return false;
    if (options.window > 0 && std::abs(behind) >= options.window) return false;
    return lengths.empty() || static_cast<double>(s) < lengths[static_cast<std::size_t>(n)];
  }
  std::vector<Doubles> reference(const std::vector<Doubles>& in) const;
};

/// in: q, k, v, lengths, mask.
std::vector<Doubles> Limited::reference(const std::vector<Doubles>& in) const {
  const double scale = options.scale ? double{*options.scale} : 1 / std::sqrt(static_cast<double>(width));
  const std::int64_t rows = images * heads * queries;
  Doubles y(static_cast<std::size_t>(rows * width)), log_sums(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t t = row % queries, h = row / queries % heads, n = row / queries / heads;
    const std::int64_t first = (n * groups + h * groups / heads) * keys * width;
    Doubles scores(static_cast<std::size_t>(keys), kHidden);
    double most = kHidden, sum = 0;
    for (std::int64_t s = 0; s < keys; ++s) {
      if (!sees(n, t, s)) continue;
      double score = 0;
      for (std::int64_t c = 0; c < width; ++c) score += scale * in[0][row * width + c] * in[1][first + s * width + c];
      if (mask_dtype == Dtype::f32) score += in.back()[mask_at(n, h, t, s)];
      if (mask_dtype == Dtype::boolean && in.back()[mask_at(n, h, t, s)] == 0) score = kHidden;
      scores[static_cast<std::size_t>(s)] = score;
      most = std::max(most, score);
    }
    log_sums[static_cast<std::size_t>(row)] = static_cast<double>(std::numeric_limits<float>::lowest());
    if (most == kHidden) continue;
    for (double score : scores) sum += std::exp(score - most);
    for (std::int64_t s = 0; s < keys; ++s)
      for (std::int64_t c = 0; c < width; ++c)
        y[row * width + c] += std::exp(scores[s] - most) / sum * in[2][first + s * width + c];
    log_sums[static_cast<std::size_t>(row)] = most + std::log(sum);
  }
  return {y, log_sums};
}

CaseInput limited_mask_input(const Limited& of) {
  CaseInput mask{.type = {*of.mask_dtype, Shape(of.mask)}, .low = -2, .high = 2, .has_batch = of.mask[0] > 1};
  if (of.mask_dtype != Dtype::boolean) return mask;
  // A third is hidden; of one query, everything.
  for (std::int64_t i = 0; i < mask.type.shape.num_elements(); ++i) {
    mask.values.push_back((i * 7 + i / 5) % 3 == 0 || i / of.mask[3] % 9 == 2 ? 0 : 1);
  }
  return mask;
}

OpCase limited_case(const Limited& of) {
  OpCase one{.name = of.name,
             .inputs = {input(of.q_shape(), -2, 2), input(of.k_shape(), -2, 2), input(of.k_shape(), -2, 2)},
             .build =
                 [of](Graph&, const std::vector<Value>& in) {
                   AttentionOptions options = of.options;
                   if (!of.lengths.empty()) options.key_lengths = in[3];
                   if (of.mask_dtype) options.mask = in.back();
                   Node& node = attention(in[0], in[1], in[2], options).node();
                   return std::vector{node.output(0), node.output(1)};
                 },
             .reference = [of](const std::vector<Doubles>& in) { return of.reference(in); },
             .tolerance = {.relative = 16, .absolute = 32},
             .gradient_tolerance = {.relative = 64, .absolute = 64},
             .dynamic_batch = true};
  if (!of.lengths.empty()) {
    one.inputs.push_back({.type = {of.lengths_dtype, {of.images}}, .values = of.lengths});
  }
  if (of.mask_dtype) one.inputs.push_back(limited_mask_input(of));
  return one;
}

const AttentionOptions kCausal{.causal = true}, kFirst{.causal = true, .alignment = CausalAlignment::first_key},
    kLast{.causal = true, .alignment = CausalAlignment::last_key};

AttentionOptions with_window(AttentionOptions options, std::int64_t window) {
  options.window = window;
  return options;
}

/// Sizes of one tile and of several, of the CPU's (64 queries or more, 64 keys or more) and of a GPU's (64 of both).
std::vector<Limited> limited_cases() {
  constexpr Dtype kAdded = Dtype::f32, kShown = Dtype::boolean;
  const AttentionOptions last_window{.alignment = CausalAlignment::last_key, .window = 7};
  const AttentionOptions first_window{.alignment = CausalAlignment::first_key, .window = 5};
  return {
      {"lengths", 4, 2, 2, 5, 7, 3, {}, {7, 3, 0, 1}},
      {"lengths_i64", 2, 1, 1, 3, 3, 4, kCausal, {2, 3}, Dtype::i64},
      {"lengths_beyond_and_below", 3, 2, 2, 4, 6, 3, {}, {99, -5, 6}},
      {"lengths_of_tiles", 3, 2, 2, 70, 300, 5, {}, {300, 40, 129}},
      {"lengths_of_causal_tiles", 3, 2, 2, 150, 150, 8, kCausal, {10, 149, 70}},
      {"lengths_of_wide_heads", 2, 1, 1, 66, 130, 140, kLast, {128, 65}},
      {"groups", 2, 4, 2, 5, 7, 3},
      {"one_group", 2, 3, 1, 9, 9, 6, kCausal},
      {"groups_of_tiles", 2, 6, 2, 150, 130, 8, kFirst},
      {"groups_with_lengths", 3, 4, 2, 70, 135, 8, {}, {0, 135, 66}},
      {"one_group_of_many_heads", 1, 20, 1, 70, 70, 4, kCausal},
      {"groups_of_wide_heads", 1, 4, 2, 66, 70, 140},
      {"window", 2, 2, 2, 9, 9, 4, with_window(kCausal, 3)},
      {"window_of_one", 1, 2, 2, 9, 9, 4, with_window(kCausal, 1)},
      {"window_to_both_sides", 2, 2, 2, 9, 9, 4, with_window({}, 3)},
      {"window_beyond_all", 1, 1, 1, 5, 5, 4, with_window({}, std::numeric_limits<std::int64_t>::max())},
      {"window_of_tiles", 1, 2, 2, 300, 300, 8, with_window(kCausal, 70)},
      {"window_of_tiles_to_both_sides", 1, 2, 1, 300, 300, 8, with_window({}, 20)},
      {"window_behind_a_cache", 2, 2, 2, 70, 300, 5, with_window(kLast, 33)},
      {"window_last_key", 2, 2, 2, 4, 20, 5, last_window},
      {"window_that_leaves_queries_without_keys", 1, 2, 2, 200, 70, 5, first_window},
      {"window_with_lengths", 3, 2, 2, 200, 200, 4, with_window(kCausal, 30), {200, 0, 77}},
      {"boolean_mask", 2, 3, 3, 5, 7, 3, {}, {}, Dtype::i32, kShown, {2, 3, 5, 7}},
      {"boolean_mask_of_keys", 2, 3, 3, 5, 7, 3, {}, {}, Dtype::i32, kShown, {2, 1, 1, 7}},
      {"boolean_mask_of_tiles", 2, 4, 2, 130, 135, 8, {}, {100, 135}, Dtype::i32, kShown, {1, 1, 130, 135}},
      {"added_mask", 2, 3, 3, 5, 7, 3, {}, {}, Dtype::i32, kAdded, {2, 3, 5, 7}},
      {"added_mask_of_heads", 2, 4, 2, 9, 9, 3, kCausal, {4, 9}, Dtype::i64, kAdded, {1, 4, 9, 9}},
      {"added_mask_of_keys", 3, 2, 2, 9, 7, 3, {}, {}, Dtype::i32, kAdded, {3, 1, 1, 7}},
      {"added_mask_for_all", 3, 2, 2, 9, 7, 3, {}, {}, Dtype::i32, kAdded, {1, 1, 1, 7}},
      {"added_mask_of_tiles", 2, 2, 1, 150, 193, 8, kLast, {193, 60}, Dtype::i32, kAdded, {1, 2, 150, 193}},
      {"added_mask_of_keys_of_tiles", 2, 2, 2, 150, 193, 5, {}, {}, Dtype::i32, kAdded, {1, 2, 1, 193}},
      {"added_mask_and_window", 2, 2, 2, 200, 200, 5, with_window({}, 40), {}, Dtype::i32, kAdded, {2, 1, 200, 200}},
      {"no_queries", 2, 4, 2, 0, 3, 4, {}, {2, 3}},
      {"no_images", 0, 4, 2, 3, 3, 4, {}, {}, Dtype::i32, kAdded, {1, 4, 3, 3}},
  };
}

std::vector<OpCase> limited_cases_in_f32() {
  std::vector<OpCase> all;
  for (const Limited& of : limited_cases()) all.push_back(limited_case(of));
  return all;
}

class AttentionLimitsCases : public testing::TestWithParam<OpCase> {};
TEST_P(AttentionLimitsCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(F32, AttentionLimitsCases, testing::ValuesIn(limited_cases_in_f32()), case_name);

/// The same in bf16. Where products take it, probabilities and their gradients are rounded to it, by up to 2^-9 of
/// each. Heads of eights, of which nothing but groups is asked, a GPU multiplies on tensor cores.
std::vector<OpCase> limited_cases_in_bf16() {
  std::vector<OpCase> all;
  for (const Limited& of : limited_cases()) {
    const bool on_tensor_cores =
        of.width % 8 == 0 && of.width <= 128 && of.lengths.empty() && !of.mask_dtype && of.options.window == 0;
    const bool rounds = tests_run_on_cpu() ? multiplies_bf16() : on_tensor_cores;
    OpCase one = in_bf16(limited_case(of), {0, 1, 2}, rounds ? 0.5 : 0);
    if (rounds) one.tolerance.absolute = 2 * 0x1p-9 / op_cases::kF32Epsilon;
    all.push_back(std::move(one));
  }
  return all;
}
class AttentionLimitsBf16 : public testing::TestWithParam<OpCase> {};
TEST_P(AttentionLimitsBf16, EqualTheReferenceAndKeepTheirBits) {
  op_cases::CaseDevice device = test_case_device();
  device.has_library_bf16 = !tests_run_on_cpu();
  for (const std::string& failure : op_cases::failures_on(GetParam(), device)) ADD_FAILURE() << failure;
}
INSTANTIATE_TEST_SUITE_P(Cases, AttentionLimitsBf16, testing::ValuesIn(limited_cases_in_bf16()), case_name);

}  // namespace
}  // namespace sectionflow::testing_support
