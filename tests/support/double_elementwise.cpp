// Operations that compute each element from elements at its place.

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "graph/nodes/reduce.h"
#include "graph/nodes/unary.h"
#include "graph/ops/dropout.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "tests/support/broadcast_reference.h"
#include "tests/support/double_graph.h"

namespace sectionflow::testing_support {
namespace {

using UnaryDouble = double (*)(double);
using BinaryDouble = double (*)(double, double);

DoubleRule of_one(UnaryDouble f) {
  return [f](const DoubleRequest& r) {
    Doubles y = r.in(0);
    std::transform(y.begin(), y.end(), y.begin(), f);
    return std::vector<Doubles>{y};
  };
}

DoubleRule of_two(BinaryDouble f) {
  return [f](const DoubleRequest& r) {
    Doubles y(r.y_count());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      y[i] = f(r.in(0)[source_index(at, r.y_shape(), r.shape(0))], r.in(1)[source_index(at, r.y_shape(), r.shape(1))]);
    }
    return std::vector<Doubles>{y};
  };
}

double sigmoid_in_double(double x) {
  return 1 / (1 + std::exp(-x));
}

double softplus_in_double(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

std::vector<Doubles> leaky_relu_in_double(const DoubleRequest& r) {
  const auto slope = static_cast<double>(r.node.options<LeakyReluOptions>().negative_slope);
  Doubles y = r.in(0);
  for (double& x : y) x = x > 0 ? x : slope * x;
  return {y};
}

std::vector<Doubles> elu_in_double(const DoubleRequest& r) {
  const auto alpha = static_cast<double>(r.node.options<EluOptions>().alpha);
  Doubles y = r.in(0);
  for (double& x : y) x = x > 0 ? x : alpha * std::expm1(x);
  return {y};
}

std::vector<Doubles> gelu_in_double(const DoubleRequest& r) {
  const bool exact = r.node.options<GeluOptions>().approximation == Gelu::exact;
  Doubles y = r.in(0);
  for (double& x : y) {
    x *= exact ? (1 + std::erf(x / std::sqrt(2.0))) / 2
               : (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
  }
  return {y};
}

std::vector<Doubles> add_n_in_double(const DoubleRequest& r) {
  Doubles y(r.y_count());
  for (const Doubles* term : r.inputs) {
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += (*term)[i];
  }
  return {y};
}

std::vector<Doubles> cast_in_double(const DoubleRequest& r) {
  Doubles y = r.in(0);
  const Dtype dtype = r.node.options<CastOptions>().dtype;
  if (dtype == Dtype::boolean) {
    for (double& x : y) x = x != 0 ? 1 : 0;
  } else if (!is_floating(dtype)) {
    for (double& x : y) x = std::trunc(x);
  }
  return {y};
}

std::vector<Doubles> select_in_double(const DoubleRequest& r) {
  Doubles y(r.y_count());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto element = [&](std::size_t input) {
      return r.in(input)[source_index(static_cast<std::int64_t>(i), r.y_shape(), r.shape(input))];
    };
    y[i] = element(0) != 0 ? element(1) : element(2);
  }
  return {y};
}

std::vector<Doubles> clip_in_double(const DoubleRequest& r) {
  const auto& options = r.node.options<ClipOptions>();
  Doubles y = r.in(0);
  for (double& x : y) x = std::clamp(x, static_cast<double>(options.low), static_cast<double>(options.high));
  return {y};
}

/// At the address that the kernel runner uses.
std::vector<Doubles> dropout_in_double(const DoubleRequest& r) {
  Doubles y = r.in(0);
  if (r.in(1)[0] == 0) return {y};
  const auto rate = static_cast<double>(r.node.options<DropoutOptions>().rate);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double u = random_words({.node = r.node.random_ordinal()}, i / 4)[i % 4] * 0x1p-32;
    y[i] = u < rate ? 0 : y[i] / (1 - rate);
  }
  return {y};
}

std::vector<Doubles> global_norm_in_double(const DoubleRequest& r) {
  double sum = 0;
  for (const Doubles* x : r.inputs) {
    for (double value : *x) sum += value * value;
  }
  return {{std::sqrt(sum)}};
}

std::vector<Doubles> clip_scale_in_double(const DoubleRequest& r) {
  const auto most = static_cast<double>(r.node.options<ClipScaleOptions>().max_norm);
  return {{most / std::max(r.in(0)[0], most)}};
}

}  // namespace

void add_elementwise_double_rules(DoubleRules& rules) {
  for (const char* name : {"print", "stop_gradient", "reshape", "flatten", "reshape_like", "same_size",
                           "custom_gradient", "branch_value", "assert_that"}) {
    rules[name] = of_one([](double x) { return x; });
  }
  rules["merge_branches"] = [](const DoubleRequest& r) {
    return std::vector<Doubles>{r.in(2)[0] != 0 ? r.in(0) : r.in(1)};
  };
  rules["neg"] = of_one([](double x) { return -x; });
  rules["square"] = of_one([](double x) { return x * x; });
  rules["sqrt"] = of_one([](double x) { return std::sqrt(x); });
  rules["rsqrt"] = of_one([](double x) { return 1 / std::sqrt(x); });
  rules["exp"] = of_one([](double x) { return std::exp(x); });
  rules["log"] = of_one([](double x) { return std::log(x); });
  rules["expm1"] = of_one([](double x) { return std::expm1(x); });
  rules["log1p"] = of_one([](double x) { return std::log1p(x); });
  rules["abs"] = of_one([](double x) { return std::abs(x); });
  rules["sign"] = of_one([](double x) { return x > 0 ? 1.0 : (x < 0 ? -1.0 : x); });
  rules["sin"] = of_one([](double x) { return std::sin(x); });
  rules["cos"] = of_one([](double x) { return std::cos(x); });
  rules["erf"] = of_one([](double x) { return std::erf(x); });
  rules["is_finite"] = of_one([](double x) { return std::isfinite(x) ? 1.0 : 0.0; });
  rules["logical_not"] = of_one([](double x) { return x == 0 ? 1.0 : 0.0; });
  rules["softplus"] = of_one(softplus_in_double);
  rules["mish"] = of_one([](double x) { return x * std::tanh(softplus_in_double(x)); });
  rules["hard_swish"] = of_one([](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; });
  rules["leaky_relu"] = leaky_relu_in_double;
  rules["elu"] = elu_in_double;
  rules["relu"] = of_one([](double x) { return std::max(x, 0.0); });
  rules["tanh"] = of_one([](double x) { return std::tanh(x); });
  rules["sigmoid"] = of_one(sigmoid_in_double);
  rules["silu"] = of_one([](double x) { return x * sigmoid_in_double(x); });
  rules["gelu"] = gelu_in_double;
  rules["add"] = of_two([](double a, double b) { return a + b; });
  rules["sub"] = of_two([](double a, double b) { return a - b; });
  rules["mul"] = of_two([](double a, double b) { return a * b; });
  rules["div"] = of_two([](double a, double b) { return a / b; });
  rules["maximum"] = of_two([](double a, double b) { return std::max(a, b); });
  rules["minimum"] = of_two([](double a, double b) { return std::min(a, b); });
  rules["pow"] = of_two([](double a, double b) { return std::pow(a, b); });
  rules["logical_and"] = of_two([](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; });
  rules["logical_or"] = of_two([](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; });
  rules["logical_xor"] = of_two([](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; });
  rules["equal"] = of_two([](double a, double b) { return a == b ? 1.0 : 0.0; });
  rules["greater"] = of_two([](double a, double b) { return a > b ? 1.0 : 0.0; });
  rules["less"] = of_two([](double a, double b) { return a < b ? 1.0 : 0.0; });
  rules["add_n"] = add_n_in_double;
  rules["accumulate"] = add_n_in_double;
  rules["cast"] = cast_in_double;
  rules["select"] = select_in_double;
  rules["clip"] = clip_in_double;
  rules["dropout"] = dropout_in_double;
  rules["global_norm"] = global_norm_in_double;
  rules["clip_scale"] = clip_scale_in_double;
}

}  // namespace sectionflow::testing_support
