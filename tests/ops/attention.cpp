#include "graph/ops/attention.h"

#include <cmath>
#include <limits>
#include <string>

#include "autodiff/gradients.h"
#include "device/instruction_set.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/parts.h"
#include "graph/ops/reduce.h"
#include "op_case/case_device.h"
#include "tests/graph/description.h"
#include "tests/support/emulated_device.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

struct AttentionSizes {
  std::int64_t images, heads, queries, keys, width;
};

/// One query against the keys of its head, plainly.
void attend(const double* q, const double* k, const double* v, std::int64_t seen, std::int64_t width, double scale,
            double* y, double& log_sum) {
  Doubles scores(static_cast<std::size_t>(seen));
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t s = 0; s < seen; ++s) {
    for (std::int64_t c = 0; c < width; ++c) scores[s] += scale * q[c] * k[s * width + c];
    most = std::max(most, scores[s]);
  }
  for (double score : scores) sum += std::exp(score - most);
  log_sum = most + std::log(sum);
  for (std::int64_t s = 0; s < seen; ++s)
    for (std::int64_t c = 0; c < width; ++c) y[c] += std::exp(scores[s] - log_sum) * v[s * width + c];
}

std::vector<Doubles> attention_reference(const AttentionSizes& n, const AttentionOptions& options,
                                         const std::vector<Doubles>& in) {
  const double scale = options.scale ? double{*options.scale} : 1 / std::sqrt(static_cast<double>(n.width));
  const std::int64_t rows = n.images * n.heads * n.queries;
  Doubles y(static_cast<std::size_t>(rows * n.width)), log_sums(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t first_key = row / n.queries * n.keys * n.width;
    const std::int64_t before = options.alignment == CausalAlignment::last_key ? n.keys - n.queries : 0;
    const std::int64_t seen = options.causal ? std::min(n.keys, before + row % n.queries + 1) : n.keys;
    attend(in[0].data() + row * n.width, in[1].data() + first_key, in[2].data() + first_key, seen, n.width, scale,
           y.data() + row * n.width, log_sums[row]);
  }
  return {y, log_sums};
}

std::string name_of(const AttentionSizes& n, const AttentionOptions& options) {
  std::string name = options.causal ? "causal" : "full";
  if (options.alignment == CausalAlignment::first_key) name += "_first_key";
  if (options.alignment == CausalAlignment::last_key) name += "_last_key";
  for (std::int64_t size : {n.images, n.heads, n.queries, n.keys, n.width}) name += "_" + std::to_string(size);
  if (!options.scale) return name;
  return name + (*options.scale < 0 ? "_negative_scale" : "_scaled");
}

OpCase attention_case(const AttentionSizes& n, const AttentionOptions& options) {
  const Shape keys{n.images, n.heads, n.keys, n.width};
  return {.name = name_of(n, options),
          .inputs = {input({n.images, n.heads, n.queries, n.width}, -2, 2), input(keys, -2, 2), input(keys, -2, 2)},
          .build =
              [=](Graph&, const std::vector<Value>& in) {
                Node& node = attention(in[0], in[1], in[2], options).node();
                return std::vector{node.output(0), node.output(1)};
              },
          .reference = [=](const std::vector<Doubles>& in) { return attention_reference(n, options, in); },
          .tolerance = {.relative = 16, .absolute = 32},
          .gradient_tolerance = {.relative = 64, .absolute = 64},
          .dynamic_batch = true};
}

std::vector<OpCase> attention_cases() {
  std::vector<OpCase> all;
  for (bool causal : {false, true}) {
    for (const AttentionSizes& n : {AttentionSizes{1, 1, 1, 1, 1},
                                    {2, 3, 5, 7, 3},
                                    {2, 3, 7, 5, 3},
                                    {2, 2, 33, 33, 16},
                                    {1, 1, 150, 150, 5},  // causal: several tiles of one head
                                    {1, 2, 130, 130, 8},
                                    {1, 2, 9, 70, 66},  // more than 64 channels, in no whole fours
                                    {1, 1, 70, 9, 80},
                                    {1, 1, 12, 67, 200},  // channels of several blocks
                                    {1, 3, 140, 70, 4},   // queries that see all keys
                                    {1, 3, 20, 200, 4},   // causal: keys that nobody sees
                                    {1, 2, 70, 300, 4},
                                    {2, 1, 0, 3, 4},
                                    {0, 2, 3, 3, 4}}) {
      const bool aligned = causal && n.queries != n.keys;
      const auto alignment = aligned ? CausalAlignment::first_key : CausalAlignment::equal;
      all.push_back(attention_case(n, {.causal = causal, .alignment = alignment}));
    }
    all.push_back(attention_case({1, 2, 9, 9, 6}, {.causal = causal, .scale = 0.7F}));
    all.push_back(attention_case({1, 2, 9, 9, 6}, {.causal = causal, .scale = -0.4F}));
  }
  for (const AttentionSizes& n : {AttentionSizes{2, 3, 1, 7, 3},  // one query behind a cache
                                  {2, 3, 5, 7, 3},
                                  {2, 2, 33, 33, 16},
                                  {1, 2, 9, 70, 66},
                                  {1, 2, 64, 128, 8},  // whole tiles
                                  {1, 2, 70, 300, 4},
                                  {1, 2, 150, 193, 5},  // several tiles of queries
                                  {1, 1, 140, 270, 200},
                                  {2, 1, 0, 3, 4}}) {
    all.push_back(attention_case(n, {.causal = true, .alignment = CausalAlignment::last_key}));
  }
  all.push_back(attention_case({2, 2, 33, 33, 16}, {.causal = true, .alignment = CausalAlignment::first_key}));
  return all;
}

/// Sizes at which the CPU cuts its tiles otherwise.
std::vector<OpCase> cases_of_cpu_tiles() {
  return {attention_case({3, 7, 130, 130, 8}, {}),  // two groups of heads, of 11 and 10
          attention_case({3, 7, 130, 130, 8}, {.causal = true}),
          attention_case({1, 16, 70, 2048, 2}, {})};  // tiles of 64 queries, each with all keys
}

class AttentionCases : public testing::TestWithParam<OpCase> {};
TEST_P(AttentionCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, AttentionCases, testing::ValuesIn(attention_cases()), case_name);

/// Where products take bf16, probabilities and their gradients are rounded to it, by up to 2^-9 of each, and so err
/// sums of probabilities times values of up to 2. Of sums in a gradient's direction most of it cancels.
OpCase in_bf16_products(const AttentionSizes& n, const AttentionOptions& options) {
  OpCase rounded = in_bf16(attention_case(n, options), {}, 0.25);
  rounded.tolerance.absolute = 2 * 0x1p-9 / op_cases::kF32Epsilon;
  return rounded;
}

std::vector<OpCase> attention_cases_in_bf16() {
  const AttentionOptions causal{.causal = true}, last{.causal = true, .alignment = CausalAlignment::last_key};
  const std::pair<AttentionSizes, AttentionOptions> lines[] = {
      {{2, 3, 5, 7, 3}, {}}, {{1, 2, 130, 130, 6}, causal}, {{1, 2, 70, 135, 6}, last}};
  const bool multiplies = tests_run_on_cpu() && multiplies_bf16();
  std::vector<OpCase> all;
  for (const auto& [n, options] : lines) {
    all.push_back(multiplies ? in_bf16_products(n, options) : in_bf16(attention_case(n, options)));
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Bf16, AttentionCases, testing::ValuesIn(attention_cases_in_bf16()), case_name);

/// Heads of up to 128 channels in eights, which a GPU multiplies on tensor cores.
std::vector<OpCase> cases_on_tensor_cores() {
  const AttentionOptions full{}, causal{.causal = true}, first{.causal = true, .alignment = CausalAlignment::first_key},
      last{.causal = true, .alignment = CausalAlignment::last_key};
  return {in_bf16_products({1, 1, 1, 1, 8}, full),
          in_bf16_products({2, 2, 33, 33, 16}, causal),
          in_bf16_products({1, 2, 130, 130, 8}, causal),
          in_bf16_products({1, 2, 70, 135, 8}, last),
          in_bf16_products({1, 2, 64, 128, 64}, full),  // whole tiles
          in_bf16_products({1, 1, 192, 192, 64}, causal),
          in_bf16_products({1, 2, 1, 70, 64}, last),     // one query behind a cache
          in_bf16_products({1, 1, 20, 200, 64}, first),  // keys that nobody sees
          in_bf16_products({1, 1, 140, 70, 40}, first),  // queries that see all keys
          in_bf16_products({1, 2, 64, 64, 128}, causal),
          in_bf16_products({1, 1, 150, 193, 128}, last),
          in_bf16_products({1, 1, 67, 35, 72}, full),
          in_bf16_products({1, 1, 70, 70, 64}, {.causal = true, .scale = 0.3F}),
          in_bf16_products({1, 1, 70, 70, 64}, {.causal = true, .scale = -0.2F}),  // by the other kernels
          in_bf16_products({1, 1, 9, 9, 8}, {.scale = 0.0F}),
          in_bf16_products({2, 1, 0, 3, 8}, full),
          in_bf16_products({0, 2, 3, 3, 8}, full)};
}

class AttentionOnTensorCores : public testing::TestWithParam<OpCase> {};
TEST_P(AttentionOnTensorCores, EqualsTheReferenceAndKeepsItsBits) {
  op_cases::CaseDevice device = test_case_device();
  // As a library's, these sums are not those of f32 between copies.
  device.has_library_bf16 = !tests_run_on_cpu();
  for (const std::string& failure : op_cases::failures_on(GetParam(), device)) ADD_FAILURE() << failure;
}
INSTANTIATE_TEST_SUITE_P(Cases, AttentionOnTensorCores, testing::ValuesIn(cases_on_tensor_cores()), case_name);

/// The test device with TF32 allowed.
op_cases::CaseDevice device_with_tf32() {
  if (tests_run_on_cpu()) return test_case_device();
  if (tests_run_on_a_gpu()) {
    // Not the one that all cases share, and like that one never closed.
    static Device* const gpu = make_device(cuda(0, {.allow_tf32 = true}), 1).release();
    return {.make = [](int, std::uint64_t) { return std::shared_ptr<Device>(gpu, [](Device*) {}); }};
  }
  return {.make = [](int, std::uint64_t order_seed) -> std::shared_ptr<Device> {
    const EmulatedOrder order(order_seed);
    return make_emulated_device({.seed = 1, .allow_tf32 = true});
  }};
}

/// Heads of up to 64 channels in eights, whose factors are rounded by up to 2^-11 of each: those of scores, of which
/// an error is one of the probability's exponent, probabilities, and values of up to 2.
OpCase in_tf32(const AttentionSizes& n, const AttentionOptions& options) {
  constexpr double kOneRounding = 0x1p-11 / op_cases::kF32Epsilon;
  OpCase rounded = attention_case(n, options);
  rounded.name += "_tf32";
  rounded.tolerance = {.relative = 2 * kOneRounding, .absolute = 6 * kOneRounding};
  rounded.gradient_tolerance = {.relative = kOneRounding, .absolute = 0.5 * kOneRounding};
  return rounded;
}

std::vector<OpCase> cases_in_tf32() {
  const AttentionOptions full{}, causal{.causal = true}, first{.causal = true, .alignment = CausalAlignment::first_key},
      last{.causal = true, .alignment = CausalAlignment::last_key};
  return {in_tf32({1, 1, 1, 1, 8}, full),        in_tf32({2, 2, 33, 33, 16}, causal),
          in_tf32({1, 2, 130, 130, 8}, causal),  in_tf32({1, 2, 70, 135, 24}, last),
          in_tf32({1, 2, 64, 128, 64}, full),                                       // whole tiles
          in_tf32({1, 1, 192, 192, 64}, causal), in_tf32({1, 2, 1, 70, 64}, last),  // one query behind a cache
          in_tf32({1, 1, 20, 200, 64}, first),                                      // keys that nobody sees
          in_tf32({1, 1, 140, 70, 40}, first),                                      // queries that see all keys
          in_tf32({1, 1, 67, 35, 56}, full),     in_tf32({1, 1, 70, 70, 64}, {.causal = true, .scale = 0.3F}),
          in_tf32({2, 1, 0, 3, 8}, full),        in_tf32({0, 2, 3, 3, 8}, full)};
}

class AttentionInTf32 : public testing::TestWithParam<OpCase> {};
TEST_P(AttentionInTf32, EqualsTheReferenceAndKeepsItsBits) {
  if (tests_run_on_cpu()) GTEST_SKIP() << "a CPU has no TF32";
  for (const std::string& failure : op_cases::failures_on(GetParam(), device_with_tf32())) ADD_FAILURE() << failure;
}
INSTANTIATE_TEST_SUITE_P(Cases, AttentionInTf32, testing::ValuesIn(cases_in_tf32()), case_name);

/// Causal attention on waves: the gradients of q, k and v, then the logarithms of the sums.
struct AttentionOnWaves {
  Graph graph;
  testing_support::Feeds feeds;
  std::vector<Value> fetches;

  AttentionOnWaves(Dtype dtype, std::int64_t queries, std::int64_t keys, std::int64_t width, float scale) {
    const Shape q_shape{1, 2, queries, width}, k_shape{1, 2, keys, width};
    const Value q = placeholder(graph, "q", q_shape, dtype), k = placeholder(graph, "k", k_shape, dtype),
                v = placeholder(graph, "v", k_shape, dtype), w = placeholder(graph, "w", q_shape, dtype);
    double number = 0;
    const auto next = [&] { return static_cast<float>(2 * std::sin(number += 1.7 + 1e-3 * number)); };
    for (Value value : {q, k, v, w}) {
      HostTensor& tensor = feeds.emplace(value, HostTensor(value.type())).first->second;
      if (dtype == Dtype::bf16) {
        for (BFloat16& x : tensor.values<BFloat16>()) x = BFloat16(next());
      } else {
        for (float& x : tensor.values<float>()) x = next();
      }
    }
    const Value y = attention(q, k, v, {.causal = true, .alignment = CausalAlignment::last_key, .scale = scale});
    fetches = gradients(reduce_sum(cast(mul(y, w), Dtype::f32)), {q, k, v});
    fetches.push_back(y.node().output(1));
  }
  std::vector<HostTensor> run(const op_cases::CaseDevice& device, const RunOptions& options = {}) const {
    return op_cases::run_kernels(device, fetches, {}, feeds, options).fetched;
  }
};

/// How far the elements of two tensors lie apart at most, as a part of the largest.
double attention_error(const HostTensor& found, const HostTensor& wanted) {
  const Doubles a = op_cases::doubles_of(found), b = op_cases::doubles_of(wanted);
  double most = 0, most_apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(b[i]));
    most_apart = std::max(most_apart, std::abs(a[i] - b[i]));
  }
  return most_apart / most;
}

TEST(AttentionOfBf16, HasGradientsAndSumsThatDifferFromThoseOfF32ByRoundings) {
  for (const auto& [queries, keys, width, scale] :
       {std::tuple(130, 130, 64, 0.125F), {70, 200, 128, 0.09F}, {66, 66, 24, 0.3F}}) {
    const AttentionOnWaves waves(Dtype::bf16, queries, keys, width, scale);
    const std::vector<HostTensor> found = waves.run(test_case_device()),
                                  of_f32 = waves.run(test_case_device(), {.widens_bf16 = true});
    // Gradients are rounded to bf16, and on tensor cores each part of them; the sums' logarithms are f32.
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_LE(attention_error(found[i], of_f32[i]), i < 3 ? 0x1p-7 : 0x1p-20) << "result " << i << " of " << width;
  }
}

TEST(AttentionOfTf32, HasGradientsAndSumsThatDifferFromThoseOfF32ByRoundings) {
  if (tests_run_on_cpu()) GTEST_SKIP() << "a CPU has no TF32";
  for (const auto& [queries, keys, width, scale] :
       {std::tuple(130, 130, 64, 0.125F), {70, 200, 40, 0.15F}, {66, 66, 24, 0.3F}}) {
    const AttentionOnWaves waves(Dtype::f32, queries, keys, width, scale);
    const std::vector<HostTensor> found = waves.run(device_with_tf32()), of_f32 = waves.run(test_case_device());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double error = attention_error(found[i], of_f32[i]);
      EXPECT_LE(error, 0x1p-9) << "result " << i << " of " << width;
      EXPECT_GT(error, 0x1p-16) << "result " << i << " of " << width << " is that of f32";
    }
  }
}

TEST(AttentionOfTf32, LeavesOtherHeadsAndScalesTheBitsOfF32) {
  if (tests_run_on_cpu()) GTEST_SKIP() << "a CPU has no TF32";
  for (const auto& [width, scale] : {std::tuple(12, 0.2F), {72, 0.1F}, {64, -0.1F}}) {
    const AttentionOnWaves waves(Dtype::f32, 40, 70, width, scale);
    const std::vector<HostTensor> found = waves.run(device_with_tf32()), of_f32 = waves.run(test_case_device());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(op_cases::bit_difference_of(found[i], of_f32[i]), "") << "result " << i << " of " << width;
  }
}

TEST(Attention, BehindACacheOfKeysIsTheEndOfAttentionOverAll) {
  // Queries 5 to 8 of nine, given the nine keys, are what they are among all nine queries.
  Graph graph;
  const Value q = placeholder(graph, "q", {1, 2, 9, 4}), k = placeholder(graph, "k", {1, 2, 9, 4});
  const Value late = slice(q, {.begin = {0, 0, 5, 0}, .size = {-1, -1, -1, -1}});
  const Value whole = slice(attention(q, k, k, {.causal = true}), {.begin = {0, 0, 5, 0}, .size = {-1, -1, -1, -1}});
  const Value end = attention(late, k, k, {.causal = true, .alignment = CausalAlignment::last_key});
  testing_support::Feeds feeds;
  for (Value value : {q, k}) {
    HostTensor& tensor = feeds.emplace(value, HostTensor(value.type())).first->second;
    float number = 0;
    for (float& element : tensor.values<float>()) element = std::sin(number += 1.7F);
  }
  const std::vector<HostTensor> found = run_kernels({whole, end}, feeds);
  const auto a = found[0].values<float>(), b = found[1].values<float>();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << i;
}

TEST(Attention, CausalWithOtherNumbersOfQueriesAndKeysWantsToKnowWhereTheyStand) {
  Graph graph;
  const auto in = [&](std::int64_t rows) { return placeholder(graph, "x", {2, 3, rows, 5}); };
  const Value few = in(4), many = in(6), open = in(kDynamic);
  const auto refusal = [&](Value q, Value k, CausalAlignment alignment) {
    return whole_error_text<ShapeError>([&] { attention(q, k, k, {.causal = true, .alignment = alignment}); });
  };
  for (const auto& [q, k] : {std::pair(few, many), {many, few}}) {
    const std::string text = refusal(q, k, CausalAlignment::equal);
    EXPECT_TRUE(contains(text, "queries and") && contains(text, "hint:    say CausalAlignment::last_key")) << text;
    EXPECT_EQ(attention(q, k, k, {.causal = true, .alignment = CausalAlignment::first_key}).shape(), q.shape());
  }
  EXPECT_TRUE(contains(refusal(many, few, CausalAlignment::last_key), "the first 2 queries would see no key"));
  EXPECT_EQ(attention(few, many, many, {.causal = true, .alignment = CausalAlignment::last_key}).shape(), few.shape());
  EXPECT_NO_THROW(attention(few, open, open, {.causal = true})) << "the feed decides";
  EXPECT_THROW(attention(few, many, many, {.alignment = CausalAlignment::last_key}), ArgumentError);
}

class AttentionCpuTiles : public testing::TestWithParam<OpCase> {};
TEST_P(AttentionCpuTiles, EqualTheReferenceAndKeepTheirBits) {
  if (!tests_run_on_cpu()) GTEST_SKIP() << "tiles of the CPU alone, and a minute's work for an emulated GPU";
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, AttentionCpuTiles, testing::ValuesIn(cases_of_cpu_tiles()), case_name);

TEST(Attention, OfOneTensorDoesNotWriteOverItsKeys) {
  const AttentionSizes n{1, 2, 150, 150, 4};
  OpCase same = attention_case(n, {.causal = true});
  same.name = "queries_are_keys_and_values";
  same.inputs.resize(1);
  same.build = [](Graph&, const std::vector<Value>& in) {
    return std::vector{attention(in[0], in[0], in[0], {.causal = true})};
  };
  same.reference = [=](const std::vector<Doubles>& in) {
    return std::vector<Doubles>{attention_reference(n, {.causal = true}, {in[0], in[0], in[0]})[0]};
  };
  check(same);
}

TEST(Attention, OfLargeScoresStaysFinite) {
  OpCase large = attention_case({1, 2, 40, 40, 8}, {.causal = true});
  large.name = "large_scores";
  for (CaseInput& x : large.inputs) x.high = 30, x.low = -30;
  // Scores reach thousands, of which an epsilon moves a probability by its thousandfold.
  large.tolerance = {.relative = 16, .absolute = 60000};
  large.gradient_outputs = {};
  check(large);
}

TEST(Attention, RefusesWhatDoesNotFit) {
  Graph graph;
  const auto in = [&](Shape shape, Dtype dtype = Dtype::f32) {
    return placeholder(graph, "x", std::move(shape), dtype);
  };
  const auto refused = [&]<class Wanted>(Wanted*, Value q, Value k, Value v, const std::string& wanted) {
    const std::string text = error_text<Wanted>([&] { attention(q, k, v); });
    EXPECT_TRUE(text.starts_with("attention 'attention") && contains(text, wanted)) << text;
  };
  ShapeError* shape = nullptr;
  ArgumentError* argument = nullptr;
  const Value q = in({2, 3, 4, 5}), k = in({2, 3, 6, 5});
  EXPECT_EQ(attention(q, k, k).type().text(), "f32[2,3,4,5]");
  EXPECT_EQ(attention(in({kDynamic, 3, 4, 5}), k, k).type().text(), "f32[?,3,4,5]") << "like q, to be added to it";
  refused(shape, in({3, 4, 5}), k, k, "wanted q [N, H, T, D]");
  refused(shape, q, k, in({2, 3, 7, 5}), "k, v [N, G, S, D]");
  refused(shape, q, in({2, 4, 6, 5}), in({2, 4, 6, 5}), "dimension 1 is 3 and 4");
  refused(shape, q, in({2, 3, 6, 4}), in({2, 3, 6, 4}), "dimension 3 is 5 and 4");
  refused(shape, q, in({2, 3, 0, 5}), in({2, 3, 0, 5}), "a key and a channel at least");
  refused(argument, in({2, 3, 4, 5}, Dtype::f64), k, k, "wanted f32");
  EXPECT_THROW(attention(q, k, k, {.scale = std::nanf("")}), ArgumentError);
  EXPECT_THROW(gradients(reduce_sum(attention(q, k, k).node().output(1)), {q}), ArgumentError);
}

}  // namespace
}  // namespace sectionflow::testing_support
