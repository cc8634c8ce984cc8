#include "op_case/op_case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <span>

#include "autodiff/gradients.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "op_case/case_device.h"
#include "op_case/case_values.h"
#include "op_case/graph_round_trip.h"
#include "op_case/kernel_runner.h"

namespace sectionflow::op_cases {
namespace {

std::uint32_t seed_of(const OpCase& op_case) {
  if (const char* text = std::getenv("SECTIONFLOW_TEST_SEED")) return static_cast<std::uint32_t>(std::atoll(text));
  std::uint32_t hash = 2166136261U;  // FNV-1a of the name: the same numbers on every machine
  for (char letter : op_case.name) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  return hash;
}

/// What has failed so far; each text begins with where.
struct Report {
  std::string where;
  std::vector<std::string> failures{};

  template <class... Parts>
  void add(const Parts&... parts) {
    failures.push_back(text_of(where, ": ", parts...));
  }
};

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

/// The shape with `count` elements that `declared` leaves open; none where there is no such shape.
std::optional<Shape> shape_of(const Shape& declared, std::size_t count) {
  std::vector<std::int64_t> dims = declared.dims();
  std::int64_t known = 1;
  for (std::int64_t dim : dims) known *= dim == kDynamic ? 1 : dim;
  for (std::int64_t& dim : dims) {
    if (dim == kDynamic) dim = known == 0 ? 0 : static_cast<std::int64_t>(count) / known;
  }
  Shape shape(std::move(dims));
  return static_cast<std::size_t>(shape.num_elements()) == count ? std::optional(std::move(shape)) : std::nullopt;
}

/// Whether there is a gradient to check: a sum over nothing is none, and neither is one over results that the reference
/// does not have.
bool has_gradient(const OpCase& op_case, const std::vector<Doubles>& wanted, const Built& built) {
  for (int index : op_case.gradient_outputs) {
    SF_CHECK(index >= 0 && static_cast<std::size_t>(index) < built.outputs.size(), ArgumentError, "case ", op_case.name,
             ": OpCase::gradient_outputs names output ", index, " of ", built.outputs.size());
  }
  const auto has_sum = [&](int index) {
    const auto at = static_cast<std::size_t>(index);
    return !wanted[at].empty() && shape_of(built.outputs[at].shape(), wanted[at].size());
  };
  return !built.differentiated.empty() && !op_case.gradient_outputs.empty() && wanted.size() == built.outputs.size() &&
         std::all_of(op_case.gradient_outputs.begin(), op_case.gradient_outputs.end(), has_sum);
}

void add_gradients(const OpCase& op_case, const std::vector<Value>& inputs, const std::vector<Doubles>& wanted,
                   std::mt19937& random, Built& built) {
  if (!has_gradient(op_case, wanted, built)) return;
  std::optional<Value> loss;
  for (int index : op_case.gradient_outputs) {
    const Value y = built.outputs[static_cast<std::size_t>(index)];
    Doubles r(wanted[static_cast<std::size_t>(index)].size());
    const bool is_bf16 = y.dtype() == Dtype::bf16;
    for (double& value : r) {
      const auto drawn = static_cast<float>(uniform(random, -1, 1));
      value = is_bf16 ? static_cast<float>(BFloat16(drawn)) : drawn;  // so that the cast's gradient passes it on
    }
    const Value placed = placeholder(built.graph, "r", y.shape());
    // Of the right length where the batch is unknown.
    built.feeds.emplace(placed, tensor_of({Dtype::f32, *shape_of(y.shape(), r.size())}, r));
    built.output_gradients.push_back(std::move(r));
    const Value term = reduce_sum(mul(is_bf16 ? cast(y, Dtype::f32) : y, placed));
    loss = loss ? add(*loss, term) : term;
  }
  std::vector<Value> variables;
  for (int index : built.differentiated) variables.push_back(inputs[static_cast<std::size_t>(index)]);
  try {
    built.gradients = gradients(*loss, variables);
  } catch (const ArgumentError& error) {
    // A rule that breaks its promise is what a case is there to find; an operation without one is not for a case.
    if (error.code() != ErrorCode::argument) throw;
    throw InternalError(error.message());
  }
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

void check_gradient(const OpCase& op_case, const Built& built, std::span<const HostTensor> found, std::mt19937& random,
                    Report& report) {
  if (built.gradients.empty()) return;
  std::vector<Doubles> ahead = built.inputs, behind = built.inputs;
  double along = 0, sum_terms = 0, sum_direction = 0;
  for (std::size_t k = 0; k < built.differentiated.size(); ++k) {
    const auto index = static_cast<std::size_t>(built.differentiated[k]);
    const Doubles dx = doubles_of(found[k]);
    if (dx.size() != built.inputs[index].size()) {
      return report.add("the gradient of input ", index, " has ", dx.size(), " elements; wanted ",
                        built.inputs[index].size());
    }
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
  if (std::abs(along - wanted) <= allowed) return;
  report.add("directional derivative ", along, ", central difference ", wanted, ", ",
             std::abs(along - wanted) / allowed, " times the tolerance");
}

void check_values(const OpCase& op_case, const Built& built, const std::vector<Doubles>& wanted,
                  std::span<const HostTensor> found, std::mt19937& random, Report& report) {
  if (wanted.size() != built.outputs.size()) {
    return report.add("the reference gave ", wanted.size(), " results; wanted one an output, ", built.outputs.size());
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string difference = difference_of(found[i], wanted[i], op_case.tolerance);
    if (!difference.empty()) report.add("output ", i, ": ", difference);
  }
  check_gradient(op_case, built, found.subspan(wanted.size()), random, report);
}

void compare_bits(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b, const std::string& what,
                  std::size_t num_outputs, Report& report) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::string difference = bit_difference_of(a[i], b[i]);
    if (difference.empty()) continue;
    const bool is_output = i < num_outputs;
    report.add(is_output ? "output " : "gradient ", is_output ? i : i - num_outputs, " against the run ", what, ": ",
               difference);
  }
}

bool has_bf16(const Built& built) {
  return std::any_of(built.feeds.begin(), built.feeds.end(),
                     [](const auto& feed) { return feed.first.dtype() == Dtype::bf16; });
}

/// All that must not change a bit, under one thread count.
void check_bits(const Built& built, const std::vector<HostTensor>& first, int threads, const CaseDevice& device,
                Report& report) {
  const std::pair<const char*, RunOptions> variants[] = {
      {"repeated on other garbage and addresses", {.garbage = 0x3C, .address_seed = 17, .in_parts = true}},
      {"in place", {.in_place = InPlaceUse::first_pairs}},
      {"in place over the last inputs", {.in_place = InPlaceUse::last_pairs, .address_seed = 5}},
      {"replayed", {.replay = true, .in_parts = true}},
      {"replayed in place", {.in_place = InPlaceUse::first_pairs, .replay = true, .garbage = 0x00}},
  };
  const auto compare = [&](const char* what, RunOptions options) {
    options.threads = threads;
    const RunResult again = run_kernels(device, built.fetches(), {}, built.feeds, options);
    compare_bits(first, again.fetched, what, built.outputs.size(), report);
  };
  for (const auto& [what, variant] : variants) compare(what, variant);
  // A library's sums of products are its own.
  if (has_bf16(built) && !device.has_library_bf16) compare("with bf16 widened", {.widens_bf16 = true});
}

void check_case(const OpCase& op_case, const CaseDevice& device, std::mt19937& random, Report& report) {
  const std::string of_case = report.where;
  std::vector<Doubles> wanted;
  const auto built = build(op_case, random, wanted);
  for (const std::string& failure : round_trip_failures(built->graph)) report.add(failure);
  std::vector<HostTensor> of_two_threads;
  for (int threads : device.team_sizes) {
    report.where = text_of(of_case, ", ", threads, threads == 1 ? " thread" : " threads");
    std::mt19937 direction = random;
    std::vector<HostTensor> found =
        run_kernels(device, built->fetches(), {}, built->feeds, {.threads = threads}).fetched;
    check_values(op_case, *built, wanted, found, direction, report);
    check_bits(*built, found, threads, device, report);
    if (threads == 1 && op_case.same_bits_for_any_threads) {
      compare_bits(of_two_threads, found, "on one thread", built->outputs.size(), report);
    }
    of_two_threads = std::move(found);
  }
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

std::vector<std::string> failures_on(const OpCase& op_case, const CaseDevice& device) {
  const std::uint32_t seed = seed_of(op_case);
  Report report{text_of("case ", op_case.name, ", SECTIONFLOW_TEST_SEED=", seed)};
  try {
    std::mt19937 random(seed);
    check_case(op_case, device, random, report);
  } catch (const InternalError& error) {  // a promise that a kernel or a gradient rule has broken
    report.add(error.message());
  }
  return report.failures;
}

std::vector<std::string> failures_of(const OpCase& op_case, const DeviceSpec& device) {
  return failures_on(op_case, case_device(device));
}

}  // namespace sectionflow::op_cases
