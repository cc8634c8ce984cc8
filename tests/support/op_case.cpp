#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>

#include "autodiff/gradients.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/cast.h"
#include "graph/ops/reduce.h"
#include "tests/support/graph_round_trip.h"

namespace sectionflow::testing_support {
namespace {

std::uint32_t seed_of(const OpCase& op_case) {
  if (const char* text = std::getenv("SECTIONFLOW_TEST_SEED")) return static_cast<std::uint32_t>(std::atoll(text));
  std::uint32_t hash = 2166136261U;  // FNV-1a of the name: the same numbers on every machine
  for (char letter : op_case.name) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  return hash;
}

// std distributions differ between libraries; this does not.
double uniform(std::mt19937& random, double low, double high) {
  return low + (high - low) * (random() * 0x1p-32);
}

Doubles drawn_values(const CaseInput& spec, std::mt19937& random) {
  if (!spec.values.empty()) return spec.values;
  Doubles values(static_cast<std::size_t>(spec.type.shape.num_elements()));
  if (spec.distinct) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    const double gap = (spec.high - spec.low) / static_cast<double>(std::max<std::size_t>(1, values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = spec.low + gap * (static_cast<double>(order[i]) + uniform(random, 0.25, 0.75));
    }
    return values;
  }
  for (double& value : values) {
    if (is_floating(spec.type.dtype)) {
      do value = uniform(random, spec.low, spec.high);
      while (std::abs(value) < spec.away_from_zero);
    } else {
      value = std::floor(uniform(random, spec.low, spec.high + 1));
    }
  }
  return values;
}

template <class T>
void assign_values(HostTensor& tensor, const Doubles& values) {
  auto elements = tensor.values<T>();
  SF_CHECK(values.size() == elements.size(), ShapeError, values.size(), " values for ", tensor.type().text());
  std::transform(values.begin(), values.end(), elements.begin(), [](double value) { return static_cast<T>(value); });
}

HostTensor tensor_of(const TensorType& type, const Doubles& values) {
  HostTensor tensor(type);
  switch (type.dtype) {
    case Dtype::f32:
      assign_values<float>(tensor, values);
      break;
    case Dtype::f64:
      assign_values<double>(tensor, values);
      break;
    case Dtype::i32:
      assign_values<std::int32_t>(tensor, values);
      break;
    case Dtype::i64:
      assign_values<std::int64_t>(tensor, values);
      break;
    case Dtype::u8:
      assign_values<std::uint8_t>(tensor, values);
      break;
    case Dtype::boolean:
      assign_values<bool>(tensor, values);
      break;
    case Dtype::bf16:
      assign_values<BFloat16>(tensor, values);
      break;
  }
  return tensor;
}

Shape declared_shape(const Shape& shape, bool dynamic_batch) {
  if (!dynamic_batch || shape.rank() == 0) return shape;
  std::vector<std::int64_t> dims = shape.dims();
  dims[0] = kDynamic;
  return Shape(dims);
}

/// A case made concrete: graph, feeds, and what is fetched.
struct Built {
  Graph graph;
  Feeds feeds;
  std::vector<Doubles> inputs;            // as fed, after rounding to their dtype
  std::vector<int> differentiated;        // indices of inputs
  std::vector<Doubles> output_gradients;  // r, one a gradient output
  std::vector<Value> outputs, gradients;

  std::vector<Value> fetches() const {
    std::vector<Value> all = outputs;
    all.insert(all.end(), gradients.begin(), gradients.end());
    return all;
  }
};

/// Whether there is a gradient to check: a sum over nothing is none.
bool has_gradient(const OpCase& op_case, const std::vector<Doubles>& wanted, const Built& built) {
  const auto is_empty = [&](int index) { return wanted.at(static_cast<std::size_t>(index)).empty(); };
  return !built.differentiated.empty() && !op_case.gradient_outputs.empty() &&
         std::none_of(op_case.gradient_outputs.begin(), op_case.gradient_outputs.end(), is_empty);
}

void add_gradients(const OpCase& op_case, const std::vector<Value>& inputs, const std::vector<Doubles>& wanted,
                   std::mt19937& random, Built& built) {
  if (!has_gradient(op_case, wanted, built)) return;
  std::optional<Value> loss;
  for (int index : op_case.gradient_outputs) {
    const Value y = built.outputs.at(static_cast<std::size_t>(index));
    const std::size_t count = wanted.at(static_cast<std::size_t>(index)).size();
    // Fed as a vector of the right length where the batch is unknown, hence the shape from the reference's count.
    std::vector<std::int64_t> dims = y.shape().dims();
    std::int64_t known = 1;
    for (std::int64_t dim : dims) known *= dim == kDynamic ? 1 : dim;
    for (std::int64_t& dim : dims) {
      if (dim == kDynamic) dim = known == 0 ? 0 : static_cast<std::int64_t>(count) / known;
    }
    Doubles r(count);
    const bool is_bf16 = y.dtype() == Dtype::bf16;
    for (double& value : r) {
      const auto drawn = static_cast<float>(uniform(random, -1, 1));
      value = is_bf16 ? static_cast<float>(BFloat16(drawn)) : drawn;  // so that the cast's gradient passes it on
    }
    const Value placed = placeholder(built.graph, "r", y.shape());
    built.feeds.emplace(placed, tensor_of({Dtype::f32, Shape(dims)}, r));
    built.output_gradients.push_back(std::move(r));
    const Value term = reduce_sum(mul(is_bf16 ? cast(y, Dtype::f32) : y, placed));
    loss = loss ? add(*loss, term) : term;
  }
  std::vector<Value> variables;
  for (int index : built.differentiated) variables.push_back(inputs[static_cast<std::size_t>(index)]);
  built.gradients = gradients(*loss, variables);
}

std::unique_ptr<Built> build(const OpCase& op_case, std::mt19937& random, std::vector<Doubles>& wanted) {
  auto built = std::make_unique<Built>();
  std::vector<Value> inputs;
  for (const CaseInput& spec : op_case.inputs) {
    const int index = static_cast<int>(inputs.size());
    HostTensor tensor = tensor_of(spec.type, drawn_values(spec, random));
    built->inputs.push_back(doubles_of(tensor));
    inputs.push_back(placeholder(built->graph, "input" + std::to_string(index),
                                 declared_shape(spec.type.shape, op_case.dynamic_batch && spec.has_batch),
                                 spec.type.dtype));
    built->feeds.emplace(inputs.back(), std::move(tensor));
    if (spec.differentiable && is_floating(spec.type.dtype) && spec.type.dtype != Dtype::f64)
      built->differentiated.push_back(index);
  }
  built->outputs = op_case.build(built->graph, inputs);
  wanted = op_case.reference(built->inputs);
  add_gradients(op_case, inputs, wanted, random, *built);
  return built;
}

double loss_of(const OpCase& op_case, const Built& built, const std::vector<Doubles>& inputs) {
  const std::vector<Doubles> outputs = op_case.reference(inputs);
  double loss = 0;
  for (std::size_t k = 0; k < op_case.gradient_outputs.size(); ++k) {
    const Doubles& y = outputs.at(static_cast<std::size_t>(op_case.gradient_outputs[k]));
    for (std::size_t i = 0; i < y.size(); ++i) loss += y[i] * built.output_gradients[k][i];
  }
  return loss;
}

void check_gradient(const OpCase& op_case, const Built& built, std::span<const HostTensor> found,
                    std::mt19937& random) {
  if (built.gradients.empty()) return;
  std::vector<Doubles> ahead = built.inputs, behind = built.inputs;
  double along = 0, sum_terms = 0, sum_direction = 0;
  for (std::size_t k = 0; k < built.differentiated.size(); ++k) {
    const auto index = static_cast<std::size_t>(built.differentiated[k]);
    const Doubles dx = doubles_of(found[k]);
    ASSERT_EQ(dx.size(), built.inputs[index].size()) << "gradient of input " << index;
    for (std::size_t i = 0; i < dx.size(); ++i) {
      const double v = uniform(random, -1, 1);
      along += dx[i] * v;
      sum_terms += std::abs(dx[i] * v);
      sum_direction += std::abs(v);
      ahead[index][i] += op_case.step * v;
      behind[index][i] -= op_case.step * v;
    }
  }
  const double wanted = (loss_of(op_case, built, ahead) - loss_of(op_case, built, behind)) / (2 * op_case.step);
  const Tolerance& tolerance = op_case.gradient_tolerance;
  const double allowed = kF32Epsilon * (tolerance.relative * sum_terms + tolerance.absolute * sum_direction);
  EXPECT_TRUE(std::abs(along - wanted) <= allowed)
      << "directional derivative " << along << ", central difference " << wanted << ", "
      << std::abs(along - wanted) / allowed << " times the tolerance";
}

void check_values(const OpCase& op_case, const Built& built, const std::vector<Doubles>& wanted,
                  std::span<const HostTensor> found, std::mt19937& random) {
  ASSERT_EQ(wanted.size(), built.outputs.size()) << "the reference must give one result an output";
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(is_near(found[i], wanted[i], op_case.tolerance)) << "output " << i;
  }
  check_gradient(op_case, built, found.subspan(wanted.size()), random);
}

void expect_same_bits(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b, const std::string& what,
                      std::size_t num_outputs) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(same_bits(a[i], b[i])) << (i < num_outputs ? "output " : "gradient ")
                                       << (i < num_outputs ? i : i - num_outputs) << " against the run " << what;
  }
}

bool has_bf16(const Built& built) {
  return std::any_of(built.feeds.begin(), built.feeds.end(),
                     [](const auto& feed) { return feed.first.dtype() == Dtype::bf16; });
}

/// All that must not change a bit, under one thread count.
void check_bits(const Built& built, const std::vector<HostTensor>& first, int threads) {
  const std::pair<const char*, RunOptions> variants[] = {
      {"repeated on other garbage and addresses", {.garbage = 0x3C, .address_seed = 17}},
      {"in place", {.in_place = InPlaceUse::first_pairs}},
      {"in place over the last inputs", {.in_place = InPlaceUse::last_pairs, .address_seed = 5}},
      {"replayed", {.replay = true}},
      {"replayed in place", {.in_place = InPlaceUse::first_pairs, .replay = true, .garbage = 0x00}},
  };
  for (const auto& [what, variant] : variants) {
    RunOptions options = variant;
    options.threads = threads;
    expect_same_bits(first, run_kernels(built.fetches(), built.feeds, options), what, built.outputs.size());
  }
  // A library's sums of products are its own.
  if (!has_bf16(built) || tests_run_on_a_gpu()) return;
  expect_same_bits(first, run_kernels(built.fetches(), built.feeds, {.threads = threads, .widens_bf16 = true}),
                   "with bf16 widened", built.outputs.size());
}

}  // namespace

OpCase in_bf16(OpCase op_case, std::vector<std::size_t> inputs, double gradient_slack) {
  constexpr double kOneRounding = 1.002 * 0x1p-8 / kF32Epsilon;  // to bf16, in epsilons of f32
  op_case.name += "_bf16";
  for (std::size_t i = 0; inputs.empty() && i < op_case.inputs.size(); ++i) {
    if (op_case.inputs[i].type.dtype == Dtype::f32) op_case.inputs[i].type.dtype = Dtype::bf16;
  }
  for (std::size_t i : inputs) op_case.inputs.at(i).type.dtype = Dtype::bf16;
  op_case.tolerance.relative += kOneRounding;
  op_case.gradient_tolerance.relative += kOneRounding;
  op_case.gradient_tolerance.absolute += gradient_slack * kOneRounding;
  return op_case;
}

void check(const OpCase& op_case) {
  const std::uint32_t seed = seed_of(op_case);
  SCOPED_TRACE("case " + op_case.name + ", SECTIONFLOW_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<Doubles> wanted;
  const auto built = build(op_case, random, wanted);
  expect_round_trip(built->graph);
  std::vector<HostTensor> of_two_threads;
  for (int threads : {2, 1}) {
    SCOPED_TRACE(std::to_string(threads) + " thread(s)");
    std::mt19937 direction = random;
    std::vector<HostTensor> found = run_kernels(built->fetches(), built->feeds, {.threads = threads});
    check_values(op_case, *built, wanted, found, direction);
    check_bits(*built, found, threads);
    if (threads == 1 && op_case.same_bits_for_any_threads) {
      expect_same_bits(of_two_threads, found, "on one thread", built->outputs.size());
    }
    of_two_threads = std::move(found);
  }
}

}  // namespace sectionflow::testing_support
