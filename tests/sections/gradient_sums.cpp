// Gradients of what is read several times: the same sums in every strategy, in the memory of two contributions.

#include <gtest/gtest.h>

#include <optional>

#include "autodiff/gradients.h"
#include "base/bytes.h"
#include "examples/models/gpt.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/matmul.h"
#include "graph/ops/parts.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "swap/lms.h"
#include "tests/support/training_case.h"

namespace sectionflow::testing {
namespace {

// ---- Memory.

constexpr std::int64_t kSide = 256;
constexpr std::size_t kWeightBytes = kSide * kSide * sizeof(float);

/// A weight that a chain of layers reads `uses` times, in sections of `each` of them.
struct Chain {
  Chain(int uses, int each, Dtype dtype) {
    const Value w = variable("w", truncated_normal(graph, {kSide, kSide}, {.stddev = 0.05F}));
    const Value shared = dtype == Dtype::f32 ? w : cast(w, dtype);
    Value h = dtype == Dtype::f32 ? x : cast(x, dtype);
    std::optional<SectionScope> section;
    for (int i = 0; i < uses; ++i) {
      if (i % each == 0) section.reset();
      if (i % each == 0) section.emplace(manager.new_section());
      h = tanh(matmul(h, shared));
    }
    loss = mean(square(cast(h, Dtype::f32)));
    section.reset();
    manager.add_training_ops(Sgd{}, loss);
    manager.prepare_training();
  }
  ProgramReport plan(bool whole, const SessionOptions& options = {.threads = 1}) {
    Session session(graph, options);
    const FeedTypes types = {{x, Shape{1, kSide}}};
    return whole ? session.plan({loss}, types, {.targets = manager.training_operations()})
                 : manager.plan(session, {loss}, types);
  }

  Graph graph;
  GraphSectionManager manager{graph};
  Value x = placeholder(graph, "x", {1, kSide}), loss;
};

constexpr std::size_t kAlike = kWeightBytes / 3;  // far less than another gradient; what layers keep is less still

TEST(GradientSums, OfTwoAndOfThirtyTwoUsesPeakAlikeInEveryCut) {
  const std::size_t two = Chain(2, 2, Dtype::f32).plan(true).planned_peak_bytes;
  // The weight, and the sum, to which products add themselves.
  EXPECT_LT(two, 2 * kWeightBytes + kAlike);
  for (int each : {1, 3, 8, 32}) {
    Chain chain(32, each, Dtype::f32);
    for (bool whole : {true, false}) {
      EXPECT_LT(chain.plan(whole).planned_peak_bytes, two + kAlike) << each << " uses a section, whole " << whole;
    }
  }
}

TEST(GradientSums, OfSixAndOfThirtyTwoBf16UsesPeakAlikeInEveryCut) {
  const std::size_t six = Chain(6, 6, Dtype::bf16).plan(true).planned_peak_bytes;
  for (int each : {1, 8, 32}) {
    Chain chain(32, each, Dtype::bf16);
    for (bool whole : {true, false}) {
      EXPECT_LT(chain.plan(whole).planned_peak_bytes, six + kAlike) << each << " uses a section, whole " << whole;
    }
  }
}

TEST(GradientSums, OfGradientsThatOthersHoldTakeNoMemoryOfTheirOwn) {
  // Two additions that read a pass their gradients on to b and c as well. While c's layer is differentiated there are
  // a, both gradients and that of c's input; a sum for a would be a fifth.
  Graph graph;
  GraphSectionManager manager(graph);
  const Value x = placeholder(graph, "x", {4096, 2});
  Value loss;
  {
    auto section = manager.new_section();
    const Value a = dense(x, {.features = 64}), b = dense(a, {.features = 64}), c = dense(a, {.features = 64});
    const Value first = a + b, second = a + c;
    loss = mean(first) + mean(second);
  }
  manager.add_training_ops(Sgd{}, loss);
  manager.prepare_training();
  Session session(graph, {.threads = 1});
  const std::size_t tensor = 4096 * 64 * sizeof(float);
  EXPECT_LT(manager.plan(session, {loss}, {{x, Shape{4096, 2}}}).planned_peak_bytes, 4 * tensor + tensor / 2);
}

TEST(GradientSums, ThatWaitBetweenSectionsFitTheBudgetOfTwoUses) {
  // What sections without the weight need while the sum waits is no more than the sum leaves.
  Chain chain(32, 8, Dtype::f32);
  const std::size_t two = Chain(2, 2, Dtype::f32).plan(true).planned_peak_bytes;
  const ProgramReport report = chain.plan(false, {.device_memory = two + kAlike, .threads = 1});
  EXPECT_TRUE(report.fits);
  EXPECT_EQ(report.bytes_out, 0U);
}

// ---- Order.

/// One use of `w` in each of four sections, whose contributions are 2^24, 1, -2^24 and 1, and one before them, outside
/// of sections, that contributes a quarter.
struct Ordered {
  Ordered() {
    const Value w = variable("w", fill(graph, {3}, 1));
    std::vector<Value> parts = {reduce_sum(w * 0.25F)};
    for (float factor : {0x1p24F, 1.0F, -0x1p24F, 1.0F}) {
      auto section = manager.new_section();
      parts.push_back(reduce_sum(w * (factor * x)));
    }
    loss = add_n(parts);
    dw = gradients(loss, {w})[0];
    manager.add_training_ops(Sgd{.learning_rate = 1.0F}, loss);
    manager.prepare_training();
  }
  Graph graph;
  GraphSectionManager manager{graph};
  Value x = placeholder(graph, "x", {}), loss, dw;
};

TEST(GradientSums, AreTakenByFallingReadersWhateverTheCut) {
  // By falling readers: (((1 - 2^24) + 1) + 2^24) + 0.25. By rising readers it would be 1; 2 if the quarter, which a
  // cut makes first since it stands outside, came first.
  Ordered net;
  Session session(net.graph, {.threads = 1});
  session.initialize();
  const HostTensor one = HostTensor::scalar(1.0F);
  const auto [whole] = session.run({net.dw}, {{net.x, one}});
  for (float element : whole.values<float>()) EXPECT_EQ(element, 2.25F);
  const auto [cycle] = net.manager.run_full_cycle(session, {net.dw}, {{net.x, one}});
  EXPECT_TRUE(bitwise_equal(cycle, whole));
  const auto state = read_variables(session);
  for (float element : state.at("w").values<float>()) EXPECT_EQ(element, 1 - 2.25F);
}

// ---- Exactness.

/// The whole graph, sections and halves, poisoned; expect_exact offloads tensors besides.
void expect_same_in_every_strategy(const TrainingCase& net) {
  const std::optional<Failure> failure = find_failure(net, {.steps = 2, .poison = true});
  EXPECT_FALSE(failure) << net.name << ": " << failure->text;
}

std::function<Feeds(std::int64_t, FeedStore&)> feeds_of(Value x) {
  return [x](std::int64_t step, FeedStore& store) {
    store.push_back(random_images({4, x.shape()[1]}, 5, step));
    return Feeds{{x, store[0]}};
  };
}

/// Steps of one cell over a sequence, `each` of them a section; the last `outside` ones in none.
TrainingCase recurrent(int steps, int each, int outside, Dtype dtype) {
  const std::string name =
      text_of("recurrent, ", dtype_name(dtype), ", ", each, " steps a section, ", outside, " in none");
  return {name, [=](Graph& graph, GraphSectionManager& manager) {
            constexpr std::int64_t kIn = 3, kState = 7;
            const Value x = placeholder(graph, "x", {4, steps * kIn});
            const auto weight = [&](const char* name, Shape shape) {
              return cast(variable(name, truncated_normal(graph, std::move(shape), {.stddev = 0.4F})), dtype);
            };
            const Value from_input = weight("from_input", {kIn, kState}),
                        from_state = weight("from_state", {kState, kState});
            const Value bias = weight("bias", {kState}), gate = weight("gate", {4, kState});
            Value h = fill(graph, {4, kState}, 0, dtype);
            std::optional<SectionScope> section;
            for (int t = 0; t < steps; ++t) {
              if (t % each == 0 || t == steps - outside) section.reset();
              if (t % each == 0 && t < steps - outside) section.emplace(manager.new_section());
              const Value in = cast(slice(x, {.begin = {0, t * kIn}, .size = {4, kIn}}), dtype);
              // The gate's gradient is passed on as it comes to the sum.
              h = tanh(matmul(in, from_input) + matmul(h, from_state) + bias + gate);
            }
            section.reset();
            const Value loss = mean(square(cast(h, Dtype::f32)));
            manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss);
            manager.prepare_training();
            return TrainingNet{loss, feeds_of(x)};
          }};
}

TEST(GradientSums, OfARecurrentNetAreExactInEveryCut) {
  expect_same_in_every_strategy(recurrent(32, 16, 0, Dtype::f32));
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) expect_same_in_every_strategy(recurrent(9, 1, 2, dtype));
}

/// A weight that is read in two sections with one between them that does not, before all sections, between and behind
/// them, and twice by one operation.
TrainingCase scattered(Dtype dtype) {
  return {text_of("scattered readers, ", dtype_name(dtype)), [=](Graph& graph, GraphSectionManager& manager) {
            const Value x = placeholder(graph, "x", {4, 6});
            const Value w = cast(variable("w", truncated_normal(graph, {6, 6}, {.stddev = 0.4F})), dtype);
            const Value in = cast(x, dtype), stem = tanh(matmul(in, w));
            Value h = stem;
            const auto section_of = [&](const std::function<Value(Value)>& layer) {
              auto section = manager.new_section();
              h = layer(h);
            };
            section_of([&](Value y) { return tanh(matmul(y, w) + y); });
            const Value aside = tanh(matmul(stem, w));
            section_of([&](Value y) { return tanh(matmul(y, matmul(w, w))); });
            section_of([&](Value y) { return relu(y + 0.5F) * y; });
            section_of([&](Value y) { return tanh(matmul(y, w)) + y; });
            const Value behind = matmul(h + aside, w) + stem;
            const Value loss = mean(square(cast(behind, Dtype::f32))) + mean(cast(w, Dtype::f32));
            manager.add_training_ops(Momentum{.learning_rate = 1e-2F}, loss);
            manager.prepare_training();
            return TrainingNet{loss, feeds_of(x)};
          }};
}

TEST(GradientSums, OfReadersInsideAndOutsideOfSectionsAreExact) {
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) expect_same_in_every_strategy(scattered(dtype));
}

/// Sums of sums: gradients are passed on unchanged to many values, all of which are read again.
TrainingCase sums_of_sums(int section_each) {
  return {text_of("sums of sums, a section each ", section_each), [=](Graph& graph, GraphSectionManager& manager) {
            const Value x = placeholder(graph, "x", {4, 6});
            std::vector<Value> all = {x};
            std::optional<SectionScope> section;
            for (int i = 0; i < 6; ++i) {
              if (i % section_each == 0) section.reset();
              if (i % section_each == 0) section.emplace(manager.new_section());
              const Value sum = all.size() > 1 ? add_n(all) : x;
              all.push_back(tanh(dense(sum, {.features = 6})));
              if (i == 3) all.push_back(all[1] + all[2]);
            }
            section.reset();
            const Value loss = mean(square(add_n(all)));
            manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss);
            manager.prepare_training();
            return TrainingNet{loss, feeds_of(x)};
          }};
}

TEST(GradientSums, OfGradientsThatArePassedOnOverwriteNoneThatIsStillRead) {
  for (int each : {1, 2, 6}) expect_same_in_every_strategy(sums_of_sums(each));
  // x + x + (x + y): dx is 3, dy 1, each with its own bytes.
  Graph graph;
  const Value x = variable("x", fill(graph, {5}, 1)), y = variable("y", fill(graph, {5}, 1));
  const Value inner = x + y;
  const Value loss = reduce_sum(x + x + inner);
  const std::vector<Value> both = gradients(loss, {x, y});
  Session session(graph, {.threads = 1, .poison = true, .check_schedules = true});
  session.initialize();
  const auto found = session.run({both[0], both[1], gradients(loss, {inner})[0]}, {});
  for (std::size_t i = 0; i < 3; ++i) {
    for (float element : found[i].values<float>()) EXPECT_EQ(element, i == 0 ? 3 : 1) << i;
  }
}

TEST(GradientSums, OfTiedEmbeddingsKeepOneSumAndOnePart) {
  const auto peak_of = [](bool tied, Cut cut) {
    Graph graph;
    GraphSectionManager manager(graph);
    const Gpt net = build_gpt(graph, manager,
                              {.layers = 3,
                               .width = 16,
                               .heads = 2,
                               .sequence = 4,
                               .vocabulary = 5000,
                               .tied_embeddings = tied,
                               .cut = cut,
                               .optimizer = Sgd{}});
    Session session(graph, {.threads = 1});
    const FeedTypes types = {{net.tokens, Shape{1, 4}}, {net.targets, Shape{1, 4}}, {net.is_training, true}};
    const ProgramReport report = manager.plan(session, {net.loss}, types);
    return std::pair(report.planned_peak_bytes, report.persistent_bytes);
  };
  const std::size_t table = 5000 * 16 * sizeof(float);
  for (Cut cut : {Cut{1}, Cut::blocks}) {
    const auto [peak, variables] = peak_of(true, cut);
    // The table's gradient as a head, and as an embedding.
    EXPECT_LT(peak, variables + 2 * table + table / 2);
  }
}

// ---- Swapping.

TEST(GradientSums, AreOffloadedWithTheTensorsOfSections) {
  expect_exact(scattered(Dtype::bf16), {.steps = 1, .threads = 1});
}

TEST(GradientSums, AreSwappedInAGraphThatLmsEdits) {
  const TrainingCase net = recurrent(12, 12, 0, Dtype::f32);
  const auto trained = [&](bool swapped) {
    Graph graph;
    GraphSectionManager manager(graph);
    const TrainingNet built = net.build(graph, manager);
    const std::vector<Operation> training = manager.training_operations();
    if (swapped) {
      const LmsResult result = Lms({.swapout_threshold = 1, .swapin_groupby = 0, .swapin_ahead = 1}).run(graph);
      EXPECT_GT(result.num_swap_outs, 20);
    }
    Session session(graph, {.host_memory = 64_MiB, .threads = 2, .check_schedules = true});
    session.initialize();
    for (std::int64_t step = 0; step < 3; ++step) {
      FeedStore store;
      (void)session.run({built.loss}, built.feeds(step, store), {.targets = training});
    }
    return TrainingState{read_variables(session), {}};
  };
  TrainingState plain = trained(false), moved = trained(true);
  EXPECT_EQ(first_difference(plain, moved), "");
}

}  // namespace
}  // namespace sectionflow::testing
