#include "tests/support/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "autodiff/gradient_path.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "tests/support/double_graph.h"

namespace sectionflow::testing_support {
namespace {

// Steps: rounding of f in double and the curvature that is left out err by 1e-8 and less of f. Kinks within them are
// seen by the half of the step.
constexpr double kFirstStep = 1e-4, kSecondStep = 5e-4;
// A few dozen operations in f32, each of half an epsilon, lie between a source and a second derivative. Over 40,000
// checks the largest error was 16 epsilons.
constexpr double kRelative = 32, kAbsolute = 32;

/// A random direction in the space of the sources: numbers a source.
using Direction = std::vector<Doubles>;

Direction random_direction(SubjectBuilder& b) {
  Direction direction;
  for (const Value& source : b.sources) {
    direction.emplace_back(static_cast<std::size_t>(source.shape().num_elements()));
    for (double& value : direction.back()) value = static_cast<float>(b.real(-1, 1));
  }
  return direction;
}

HostTensor f32_tensor(const Shape& shape, const Doubles& values) {
  return HostTensor::of<float>(shape, std::vector<float>(values.begin(), values.end()));
}

Value half_square_sum(const std::vector<Value>& xs) {
  Value sum;
  for (const Value& x : xs) {
    const Value term = reduce_sum(square(x)) * 0.5F;
    sum = sum.valid() ? sum + term : term;
  }
  return sum;
}

/// Smooth functions, so that the gradient that reaches the operation depends on its result.
Value bent(SubjectBuilder& b, Value y) {
  switch (b.number(0, 3)) {
    case 0:
      return square(y) * 0.5F;
    case 1:
      return tanh(y);
    case 2:
      return sigmoid(y);
    default:
      return silu(y);
  }
}

/// f: each result bent and weighed; half of the squares of the sources make every source count.
Value function_of(SubjectBuilder& b) {
  Value f = half_square_sum(b.sources);
  for (const Value& y : b.results) {
    Doubles weights(static_cast<std::size_t>(y.shape().num_elements()));
    for (double& weight : weights) weight = b.real(0.3, 1) * (b.coin() ? 1 : -1);
    f = f + reduce_sum(bent(b, y) * constant(b.graph, f32_tensor(y.shape(), weights)));
  }
  return f;
}

/// f in double as a function of the sources, all else being as it is, that which stops gradients too.
class FunctionInDouble {
 public:
  FunctionInDouble(const SubjectBuilder& b, Value f) : sources_(b.sources), f_(f) {
    for (const auto& [value, tensor] : b.feeds) feeds_[value] = doubles_of(tensor);
    std::vector<Value> constants;
    for (NodeId id = 0; id < f.node().id(); ++id) {
      Node& node = b.graph.node(id);
      if (node.op().name == "stop_gradient") constants.push_back(node.output());
    }
    const std::vector<Doubles> kept = evaluate_in_double(constants, feeds_);
    for (std::size_t i = 0; i < constants.size(); ++i) feeds_[constants[i]] = kept[i];
  }

  /// f at x + along v + across u.
  double at(const Direction& v, double along, const Direction& u, double across) const {
    DoubleFeeds feeds = feeds_;
    for (std::size_t k = 0; k < sources_.size(); ++k) {
      Doubles& x = feeds[sources_[k]];
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += along * v[k][i] + across * u[k][i];
    }
    return evaluate_in_double({f_}, std::move(feeds))[0][0];
  }

 private:
  std::vector<Value> sources_;
  Value f_;
  DoubleFeeds feeds_;
};

/// A difference with a step and with half of it, put together so that the error in the square of the step falls out.
struct Difference {
  double value, disagreement;

  Difference(double whole, double half) : value((4 * half - whole) / 3), disagreement(std::abs(half - whole)) {}
};

Difference first_difference_of(const FunctionInDouble& f, const Direction& v) {
  const auto central = [&](double h) { return (f.at(v, h, v, 0) - f.at(v, -h, v, 0)) / (2 * h); };
  return {central(kFirstStep), central(kFirstStep / 2)};
}

Difference mixed_difference_of(const FunctionInDouble& f, const Direction& v, const Direction& u) {
  const auto mixed = [&](double h) {
    return (f.at(v, h, u, h) - f.at(v, h, u, -h) - f.at(v, -h, u, h) + f.at(v, -h, u, -h)) / (4 * h * h);
  };
  return {mixed(kSecondStep), mixed(kSecondStep / 2)};
}

/// The derivative along v that gradients, one a source, tell.
DifferenceCheck along(const Direction& v, std::span<const HostTensor> gradients, double epsilon) {
  DifferenceCheck check;
  double sum_terms = 0, sum_direction = 0;
  for (std::size_t k = 0; k < v.size(); ++k) {
    const Doubles dx = doubles_of(gradients[k]);
    for (std::size_t i = 0; i < dx.size(); ++i) {
      check.found += dx[i] * v[k][i];
      sum_terms += std::abs(dx[i] * v[k][i]);
      sum_direction += std::abs(v[k][i]);
    }
  }
  check.allowed = epsilon * (kRelative * sum_terms + kAbsolute * sum_direction);
  return check;
}

/// Inputs through which gradients of `last` to the sources went.
std::set<std::string> covered_inputs(const GradientRegistry& registry, const SubjectBuilder& b, Value last) {
  const std::set<Value> sources(b.sources.begin(), b.sources.end());
  std::set<Value> influenced = sources;
  for (NodeId id = 0; id <= last.node().id(); ++id) {
    Node& node = b.graph.node(id);
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      if (!carries_gradient(registry, node, i) || !influenced.contains(node.inputs()[i])) continue;
      for (std::size_t k = 0; k < node.output_types().size(); ++k) influenced.insert(node.output(static_cast<int>(k)));
    }
  }
  std::set<Value> needed = {last};
  std::set<std::string> covered;
  for (NodeId id = last.node().id(); id >= 0; --id) {
    Node& node = b.graph.node(id);
    bool is_needed = false;
    for (std::size_t k = 0; k < node.output_types().size(); ++k) {
      is_needed = is_needed || needed.contains(node.output(static_cast<int>(k)));
    }
    for (std::size_t i = 0; is_needed && i < node.inputs().size(); ++i) {
      if (!carries_gradient(registry, node, i) || !influenced.contains(node.inputs()[i])) continue;
      needed.insert(node.inputs()[i]);
      covered.insert(node.op().name + ":" + std::to_string(i));
    }
  }
  return covered;
}

/// s = <gradients of some sources, u> and half of the squares of the sources. u is made zero for the other sources.
Value function_of_gradients(SubjectBuilder& b, const std::vector<Value>& gradients, Direction& u) {
  Value s = half_square_sum(b.sources);
  const auto always = static_cast<std::size_t>(b.number(0, static_cast<std::int64_t>(gradients.size()) - 1));
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    if (k != always && b.number(0, 2) == 0) {
      std::fill(u[k].begin(), u[k].end(), 0.0);
      continue;
    }
    s = s + reduce_sum(gradients[k] * constant(b.graph, f32_tensor(gradients[k].shape(), u[k])));
  }
  return s;
}

void compare(const GradientRegistry& registry, SubjectBuilder& b, GradientFinding& finding) {
  const Value f = function_of(b);
  const Direction v = random_direction(b);
  Direction u = random_direction(b);
  const std::vector<Value> first = gradients_by(registry, f, b.sources);
  const Value s = function_of_gradients(b, first, u);
  std::vector<Value> fetches = first;
  const std::vector<Value> second = gradients_by(registry, s, b.sources);
  fetches.insert(fetches.end(), second.begin(), second.end());
  finding.covered = covered_inputs(registry, b, s);

  const std::vector<HostTensor> found = run_kernels(fetches, b.feeds, {.threads = 1});
  finding.first = along(v, std::span(found).first(first.size()), b.epsilon);
  finding.second = along(v, std::span(found).subspan(first.size()), b.epsilon);

  const FunctionInDouble in_double(b, f);
  const Difference once = first_difference_of(in_double, v), twice = mixed_difference_of(in_double, v, u);
  finding.is_smooth =
      once.disagreement <= 0.3 * finding.first.allowed && twice.disagreement <= 0.3 * finding.second.allowed;
  finding.first.wanted = once.value;
  finding.second.wanted = twice.value;
  for (std::size_t k = 0; k < b.sources.size(); ++k) {  // of the squares in s
    const Doubles x = doubles_of(b.feeds.at(b.sources[k]));
    for (std::size_t i = 0; i < x.size(); ++i) finding.second.wanted += x[i] * v[k][i];
  }
}

}  // namespace

std::string GradientFinding::text() const {
  if (!error.empty()) return error;
  if (!is_smooth) return "a kink within the step";
  const auto told = [](const char* name, const DifferenceCheck& check) {
    return text_of(name, " derivative ", check.found, ", difference ", check.wanted, ", ", check.share(),
                   " of what is allowed");
  };
  return told("first", first) + "; " + told("second", second);
}

GradientFinding check_gradients(const GradientRegistry& registry, const GradientSubject& subject, std::uint64_t seed) {
  GradientFinding finding;
  SubjectBuilder builder(seed);
  try {
    subject.build(builder);
    compare(registry, builder, finding);
  } catch (const Error& error) {
    finding.error = error.what();
  }
  return finding;
}

}  // namespace sectionflow::testing_support
