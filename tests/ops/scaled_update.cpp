#include "graph/ops/scaled_update.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <ostream>
#include <string>

#include "graph/ops/basic.h"
#include "tests/support/contains.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

constexpr std::int64_t kManySteps = 100'000'000'000;

HostTensor swaying(const Shape& shape, float phase, float height = 1, Dtype dtype = Dtype::f32) {
  HostTensor tensor(Dtype::f32, shape);
  for (int i = 0; float& element : tensor.values<float>()) {
    element = height * std::sin(phase + 1.7F * static_cast<float>(i++));
  }
  if (dtype == Dtype::f32) return tensor;
  HostTensor narrow(dtype, shape);
  std::transform(tensor.values<float>().begin(), tensor.values<float>().end(), narrow.values<BFloat16>().begin(),
                 [](float x) { return BFloat16(x); });
  return narrow;
}

/// A variable with its slots, in double: the content of each, the variable's first.
using Contents = std::vector<std::vector<double>>;

struct ScaledCase {
  std::string name;
  std::function<std::vector<Shape>(const Shape& variable)> slots;
  std::function<Operation(const std::vector<Value>& all, Value gradient, Value rate, Value steps)> build;
  /// One step, of a gradient, by a rate, after t - 1 others.
  std::function<void(const Shape& shape, Contents& all, const std::vector<double>& g, double rate, double t)> step;
  std::vector<Shape> shapes;
  friend void PrintTo(const ScaledCase& each, std::ostream* stream) { *stream << each.name; }
};

double length(const std::vector<double>& x) {
  double sum = 0;
  for (double element : x) sum += element * element;
  return std::sqrt(sum);
}
double rms(const std::vector<double>& x) {
  return length(x) / std::sqrt(static_cast<double>(x.size()));
}

void lamb_in_double(const LambOptions& o, Contents& all, const std::vector<double>& g, double rate, double t) {
  std::vector<double>&w = all[0], &m = all[1], &v = all[2], u(w.size());
  const double beta1 = o.beta1, beta2 = o.beta2;
  for (std::size_t i = 0; i < w.size(); ++i) {
    m[i] = beta1 * m[i] + (1 - beta1) * g[i];
    v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
    u[i] = m[i] / (1 - std::pow(beta1, t)) / (std::sqrt(v[i] / (1 - std::pow(beta2, t))) + o.epsilon) +
           o.weight_decay * w[i];
  }
  const double ratio = length(w) > 0 && length(u) > 0 ? length(w) / length(u) : 1;
  for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rate * ratio * u[i];
}

/// The end of a step of Adafactor, by estimated squares.
void adafactor_by(const AdafactorOptions& o, std::vector<double>& w, std::vector<double> u,
                  const std::vector<double>& squares, double rate, double t) {
  const double kept = 1 - rate * o.weight_decay;
  if (o.relative_step) rate = std::max(double{o.least_scale}, rms(w)) * std::min(rate, 1 / std::sqrt(t));
  for (std::size_t i = 0; i < u.size(); ++i) u[i] /= std::max(double{o.epsilon}, std::sqrt(squares[i]));
  const double too_long = std::max(1.0, rms(u) / o.clip);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = kept * w[i] - rate / too_long * u[i];
}

void adafactor_in_double(const AdafactorOptions& o, const Shape& shape, Contents& all, const std::vector<double>& g,
                         double rate, double t) {
  const double taken = std::pow(t, -double{o.decay_exponent});
  std::vector<double> squares(g.size());
  if (all.size() == 2) {
    for (std::size_t i = 0; i < g.size(); ++i) all[1][i] += taken * (g[i] * g[i] - all[1][i]);
    squares = all[1];
  } else {
    const auto rows = static_cast<std::size_t>(shape[-2]), columns = static_cast<std::size_t>(shape[-1]);
    std::vector<double> of_rows(all[1].size()), of_columns(all[2].size());
    const auto column_of = [&](std::size_t i) { return i / (rows * columns) * columns + i % columns; };
    for (std::size_t i = 0; i < g.size(); ++i) {
      of_rows[i / columns] += g[i] * g[i] / static_cast<double>(columns);
      of_columns[column_of(i)] += g[i] * g[i] / static_cast<double>(rows);
    }
    std::vector<double> means(rows * columns == 0 ? 0 : g.size() / (rows * columns));
    for (std::size_t i = 0; i < of_rows.size(); ++i) all[1][i] += taken * (of_rows[i] - all[1][i]);
    for (std::size_t i = 0; i < of_columns.size(); ++i) all[2][i] += taken * (of_columns[i] - all[2][i]);
    for (std::size_t i = 0; i < means.size() * rows; ++i) means[i / rows] += all[1][i] / static_cast<double>(rows);
    for (std::size_t i = 0; i < g.size(); ++i) {
      squares[i] = all[1][i / columns] * all[2][column_of(i)] / std::max(double{o.epsilon}, means[i / columns / rows]);
    }
  }
  adafactor_by(o, all[0], g, squares, rate, t);
}

std::vector<Shape> two_alike(const Shape& shape) {
  return {shape, shape};
}
std::vector<Shape> factors(const Shape& shape) {
  std::vector<std::int64_t> rows = shape.dims(), columns = shape.dims();
  rows.pop_back();
  columns.erase(columns.end() - 2);
  return {Shape(rows), Shape(columns)};
}

std::vector<ScaledCase> scaled_cases() {
  using All = const std::vector<Value>&;
  std::vector<ScaledCase> cases;
  // A large epsilon shows where it stands.
  for (const auto& [name, o] : std::vector<std::pair<std::string, LambOptions>>{
           {"lamb", {}}, {"lamb_of_others", {.beta1 = 0.5F, .beta2 = 0.75F, .epsilon = 0.25F, .weight_decay = 0}}}) {
    cases.push_back(
        {name,
         two_alike,
         [o = o](All v, Value g, Value rate, Value steps) { return apply_lamb(v[0], v[1], v[2], g, rate, steps, o); },
         [o = o](const Shape&, Contents& all, const std::vector<double>& g, double rate, double t) {
           lamb_in_double(o, all, g, rate, t);
         },
         {{}, {7}, {0, 3}, {3, 5, 2}, {40003}}});
  }
  const std::vector<std::pair<std::string, AdafactorOptions>> adafactors = {
      {"adafactor", {}},
      {"adafactor_of_others",
       {.decay_exponent = 0.5F, .epsilon = 0.25F, .least_scale = 2, .clip = 0.5F, .weight_decay = 0.125F}},
      {"adafactor_by_rate", {.clip = 100, .relative_step = false}}};
  for (const auto& [name, o] : adafactors) {
    const auto step = [o = o](const Shape& shape, Contents& all, const std::vector<double>& g, double rate, double t) {
      adafactor_in_double(o, shape, all, g, rate, t);
    };
    cases.push_back({name,
                     factors,
                     [o = o](All v, Value g, Value rate, Value steps) {
                       return apply_adafactor(v[0], v[1], v[2], g, rate, steps, o);
                     },
                     step,
                     {{1, 1}, {0, 3}, {3, 0}, {3, 5}, {2, 3, 5, 2}, {1, 700}, {700, 1}, {150, 333}}});
    cases.push_back({name + "_by_squares",
                     [](const Shape& shape) { return std::vector<Shape>{shape}; },
                     [o = o](All v, Value g, Value rate, Value steps) {
                       return apply_adafactor_by_squares(v[0], v[1], g, rate, steps, o);
                     },
                     step,
                     {{}, {7}, {0}, {40003}}});
  }
  return cases;
}

constexpr float kRate = 0.0625F;

/// A variable that is trained on kernels.
class Trained {
 public:
  Trained(const ScaledCase& c, const Shape& shape, Dtype gradient = Dtype::f32) : shape_(shape) {
    all_.push_back(variable("w", fill(graph_, shape, 0)));
    for (const Shape& slot : c.slots(shape)) all_.push_back(variable("slot", fill(graph_, slot, 0)));
    gradient_ = placeholder(graph_, "gradient", shape, gradient);
    steps_ = variable("steps", fill(graph_, {}, 0, Dtype::i64));
    update_ = c.build(all_, gradient_, constant(graph_, kRate), steps_);
    for (Value each : all_) feeds_.emplace(each, HostTensor(each.type()));
    feeds_.insert_or_assign(all_[0], swaying(shape, 1));
  }

  void step(std::int64_t taken, int threads = 2) {
    feeds_.insert_or_assign(gradient_, gradient_of(taken, gradient_.dtype()));
    feeds_.insert_or_assign(steps_, HostTensor::scalar(taken));
    RunResult result = run_kernels({}, {update_}, feeds_, {.threads = threads, .address_seed = 11});
    for (Value each : all_) feeds_.insert_or_assign(each, std::move(result.variables.at(each)));
  }
  HostTensor gradient_of(std::int64_t taken, Dtype dtype = Dtype::f32) const {
    return swaying(shape_, 2.3F * static_cast<float>(taken % 100 + 1), 0.5F, dtype);
  }
  const HostTensor& content(std::size_t index) const { return feeds_.at(all_[index]); }
  std::size_t size() const { return all_.size(); }
  Contents contents() const {
    Contents result;
    for (Value each : all_) result.push_back(doubles_of(feeds_.at(each)));
    return result;
  }

 private:
  Shape shape_;
  Graph graph_;
  std::vector<Value> all_;
  Value gradient_, steps_;
  Operation update_;
  Feeds feeds_;
};

class ScaledUpdates : public testing::TestWithParam<ScaledCase> {};

TEST_P(ScaledUpdates, MatchTheReferenceOverSeveralSteps) {
  for (const Shape& shape : GetParam().shapes) {
    Trained trained(GetParam(), shape);
    Contents wanted = trained.contents();
    for (const std::int64_t taken : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, kManySteps}) {
      trained.step(taken);
      GetParam().step(shape, wanted, doubles_of(trained.gradient_of(taken)), kRate, static_cast<double>(taken) + 1);
    }
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      EXPECT_TRUE(is_near(trained.content(k), wanted[k], {.relative = 16, .absolute = 8}))
          << shape.text() << ", variable " << k;
    }
  }
}

TEST_P(ScaledUpdates, BitsDoNotDependOnTheThreadCount) {
  for (const Shape& shape : GetParam().shapes) {
    Trained one(GetParam(), shape);
    one.step(3, 1);
    for (int threads : {2, 3, 7}) {
      Trained many(GetParam(), shape);
      many.step(3, threads);
      for (std::size_t k = 0; k < one.size(); ++k) EXPECT_TRUE(same_bits(one.content(k), many.content(k))) << threads;
    }
  }
}

TEST_P(ScaledUpdates, TakeGradientsOfBf16AsTheyAre) {
  for (const Shape& shape : GetParam().shapes) {
    Trained narrow(GetParam(), shape, Dtype::bf16);
    narrow.step(0);
    Contents wanted;
    {
      Trained start(GetParam(), shape);
      wanted = start.contents();
      GetParam().step(shape, wanted, doubles_of(start.gradient_of(0, Dtype::bf16)), kRate, 1);
    }
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      EXPECT_TRUE(is_near(narrow.content(k), wanted[k], {.relative = 16, .absolute = 8})) << shape.text();
    }
  }
}

TEST_P(ScaledUpdates, ShowWhatIsNotFiniteInAGradient) {
  for (const float number : {std::nanf(""), HUGE_VALF}) {
    Graph graph;
    const ScaledCase& c = GetParam();
    const Shape shape = c.slots({2, 3}).size() == 2 ? Shape{2, 3} : Shape{6};
    std::vector<Value> all = {variable("w", fill(graph, shape, 0))};
    for (const Shape& slot : c.slots(shape)) all.push_back(variable("slot", fill(graph, slot, 0)));
    const Value g = placeholder(graph, "g", shape), steps = variable("steps", fill(graph, {}, 0, Dtype::i64));
    Feeds feeds;
    for (Value each : all) feeds.emplace(each, HostTensor(each.type()));
    HostTensor gradient = swaying(shape, 1);
    gradient.values<float>()[1] = number;
    feeds.emplace(g, std::move(gradient));
    feeds.emplace(steps, HostTensor::scalar(std::int64_t{0}));
    const RunResult result = run_kernels({}, {c.build(all, g, constant(graph, kRate), steps)}, feeds);
    EXPECT_FALSE(std::isfinite(result.variables.at(all[0]).values<float>()[1])) << number;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ScaledUpdates, testing::ValuesIn(scaled_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(ApplyLamb, AVariableOfZerosIsSteppedByTheRateAndOneWithoutGradientsNotAtAll) {
  Graph graph;
  std::vector<Value> all;
  for (int i = 0; i < 3; ++i) all.push_back(variable("w", fill(graph, {3}, 0)));
  const Value g = placeholder(graph, "g", {3}), steps = variable("steps", fill(graph, {}, 0, Dtype::i64));
  const Operation update = apply_lamb(all[0], all[1], all[2], g, constant(graph, 0.5F), steps, {.weight_decay = 0});
  Feeds feeds;
  for (Value each : all) feeds.emplace(each, HostTensor(each.type()));
  feeds.emplace(steps, HostTensor::scalar(std::int64_t{0}));
  feeds.insert_or_assign(g, HostTensor::of<float>({3}, {2, -1, 4}));
  EXPECT_TRUE(is_near(run_kernels({}, {update}, feeds).variables.at(all[0]), std::vector<double>{-0.5, 0.5, -0.5},
                      {.relative = 16}));
  feeds.insert_or_assign(g, HostTensor(Dtype::f32, {3}));
  feeds.insert_or_assign(all[0], HostTensor::of<float>({3}, {2, -1, 4}));
  EXPECT_TRUE(same_bits(run_kernels({}, {update}, feeds).variables.at(all[0]), feeds.at(all[0])));
}

// torch.optim.Adafactor of PyTorch 2.15 in double, with eps = (2^-23, 1e-3), on this file's numbers.
struct TorchCase {
  Shape shape;
  AdafactorOptions options;
  float rate;
  int steps;
  Contents wanted;
};
const TorchCase kOfTorch[] = {{{2, 3, 2},
                               {},
                               1e-2F,
                               3,
                               {{0.835557906, 0.424297061, -0.946241002, -0.179883528, 0.994194846, -0.0763768749,
                                 -0.978805853, 0.326129875, 0.898489167, -0.555532063, -0.758757215, 0.748202925},
                                {0.121948301, 0.124291871, 0.126820373, 0.128873259, 0.129914568, 0.129672183},
                                {0.158994234, 0.0897127958, 0.135166559, 0.123806782}}},
                              {{5},
                               {.decay_exponent = 0.5F, .weight_decay = 0.5F},
                               0.25F,
                               3,
                               {{0.437054258, 0.24701719, -0.492507657, -0.0530629528, 0.511650397},
                                {0.139278474, 0.0955933151, 0.167582115, 0.072070119, 0.18476314}}},
                              {{2, 3},
                               {.decay_exponent = 0.5F, .weight_decay = 0.125F},
                               2,
                               2,
                               {{0.598705447, 0.942642666, -0.749308804, -0.430345418, 1.08857818, 0.199955164},
                                {0.150833042, 0.11508486},
                                {0.143733681, 0.099425, 0.155718172}}}};

TEST(ApplyAdafactor, HasTheNumbersOfPyTorch) {
  for (const TorchCase& c : kOfTorch) {
    Graph graph;
    std::vector<Value> all = {variable("w", fill(graph, c.shape, 0))};
    const bool is_factored = c.shape.rank() >= 2;
    for (const Shape& slot : is_factored ? factors(c.shape) : std::vector<Shape>{c.shape}) {
      all.push_back(variable("slot", fill(graph, slot, 0)));
    }
    const Value g = placeholder(graph, "g", c.shape), steps = variable("steps", fill(graph, {}, 0, Dtype::i64));
    const Value rate = constant(graph, c.rate);
    const Operation update = is_factored ? apply_adafactor(all[0], all[1], all[2], g, rate, steps, c.options)
                                         : apply_adafactor_by_squares(all[0], all[1], g, rate, steps, c.options);
    Feeds feeds;
    for (Value each : all) feeds.emplace(each, HostTensor(each.type()));
    feeds.insert_or_assign(all[0], swaying(c.shape, 1));
    for (int t = 1; t <= c.steps; ++t) {
      feeds.insert_or_assign(g, swaying(c.shape, 2.3F * static_cast<float>(t), 0.5F));
      feeds.insert_or_assign(steps, HostTensor::scalar(std::int64_t{t - 1}));
      RunResult result = run_kernels({}, {update}, feeds);
      for (Value each : all) feeds.insert_or_assign(each, std::move(result.variables.at(each)));
    }
    for (std::size_t k = 0; k < all.size(); ++k) {
      EXPECT_TRUE(is_near(feeds.at(all[k]), c.wanted[k], {.relative = 16, .absolute = 16})) << c.shape << ", " << k;
    }
  }
}

TEST(ScaledUpdateRules, ShapesAndNumbersThatDoNotFitAreRefusedAndAddNothing) {
  Graph graph;
  const auto of = [&](const Shape& shape) { return variable("v", fill(graph, shape, 0)); };
  const Value w = of({4, 3}), like_w = of({4, 3}), m = of({4, 3}), rows = of({4}), columns = of({3}), b = of({3});
  const Value g = placeholder(graph, "g", {4, 3}), of_b = placeholder(graph, "of_b", {3});
  const Value rate = constant(graph, 0.1F), steps = variable("steps", fill(graph, {}, 0, Dtype::i64));
  const int before = graph.num_nodes();
  const auto text_of_shape = [&](const auto& call) { return error_text<ShapeError>(call); };
  EXPECT_TRUE(contains(text_of_shape([&] { apply_adafactor(w, columns, rows, g, rate, steps); }),
                       "variable is f32[4,3], its rows f32[3]; wanted f32[4]"));
  EXPECT_TRUE(contains(text_of_shape([&] { apply_adafactor(w, rows, rows, g, rate, steps); }),
                       "its columns f32[4]; wanted f32[3]"));
  EXPECT_THROW(apply_adafactor(b, rows, columns, of_b, rate, steps), ShapeError) << "a vector has no factors";
  EXPECT_THROW(apply_adafactor_by_squares(w, rows, g, rate, steps), ShapeError);
  EXPECT_THROW(apply_lamb(w, rows, m, g, rate, steps), ShapeError);
  EXPECT_THROW(apply_lamb(w, like_w, m, of_b, rate, steps), ShapeError);
  EXPECT_THROW(apply_lamb(w, like_w, m, g, rate, rate), ArgumentError) << "steps are counted in i64";
  EXPECT_THROW(apply_lamb(w, like_w, m, g, rate, steps, {.beta2 = 1}), ArgumentError);
  EXPECT_THROW(apply_lamb(w, like_w, m, g, rate, steps, {.epsilon = NAN}), ArgumentError);
  EXPECT_THROW(apply_lamb(w, like_w, m, g, rate, steps, {.weight_decay = -1}), ArgumentError);
  for (const AdafactorOptions& wrong :
       {AdafactorOptions{.decay_exponent = -0.8F}, AdafactorOptions{.epsilon = -1},
        AdafactorOptions{.least_scale = NAN}, AdafactorOptions{.clip = 0}, AdafactorOptions{.weight_decay = -1}}) {
    EXPECT_THROW(apply_adafactor(w, rows, columns, g, rate, steps, wrong), ArgumentError);
  }
  EXPECT_EQ(graph.num_nodes(), before);
}

}  // namespace
}  // namespace sectionflow
