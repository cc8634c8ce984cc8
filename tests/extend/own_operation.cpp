// Operations from outside are treated as the library's own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "autodiff/gradients.h"
#include "autodiff/optimizers.h"
#include "base/bytes.h"
#include "compare/compare_strategies.h"
#include "compare/strategy_names.h"
#include "data/synthetic.h"
#include "graph/graph_file.h"
#include "graph/layers.h"
#include "graph/ops/layout.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/traversal.h"
#include "kernels/kernel_registry.h"
#include "swish.h"
#include "tests/extend/acme.h"
#include "tests/support/emulated_device.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using op_cases::Doubles;
using op_cases::in_bf16;
using op_cases::input;
using op_cases::OpCase;
using testing::AllOf;
using testing::HasSubstr;
using testing_support::check;
using testing_support::EmulatedCuda;

OpCase swish_case(const std::string& name, Shape shape) {
  return {.name = name,
          .inputs = {input(std::move(shape), -4, 4)},
          .build = [](Graph&, const std::vector<Value>& in) { return std::vector{acme::swish(in[0], {1.5F})}; },
          .reference =
              [](const std::vector<Doubles>& in) {
                Doubles y = in[0];
                for (double& value : y) value /= 1 + std::exp(-1.5 * value);
                return std::vector<Doubles>{y};
              },
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

TEST(OwnOperation, KeepsWhatItsCaseAsks) {
  check(swish_case("swish", {37, 5}));
  check(swish_case("swish_of_several_threads", {151, 333}));
  check(in_bf16(swish_case("swish", {37, 5})));
}

TEST(OwnOperation, ACaseWithAWrongReferenceFails) {
  OpCase wrong = swish_case("swish_wrong", {3, 5});
  wrong.reference = [](const std::vector<Doubles>& in) { return std::vector<Doubles>{in[0]}; };
  const std::vector<std::string> failures = op_cases::failures_of(wrong);
  ASSERT_FALSE(failures.empty());
  EXPECT_THAT(failures.front(), AllOf(HasSubstr("case swish_wrong, SECTIONFLOW_TEST_SEED="), HasSubstr("output 0"),
                                      HasSubstr("times the tolerance")));
  EXPECT_THAT(failures, testing::Contains(HasSubstr("directional derivative")));
}

TEST(OwnOperation, AReferenceOfOtherResultsThanTheOperationsFails) {
  const auto failures_with = [](const std::vector<Doubles>& results, bool dynamic_batch) {
    OpCase wrong = swish_case("swish_other_results", {3, 5});
    wrong.dynamic_batch = dynamic_batch;
    wrong.reference = [=](const std::vector<Doubles>&) { return results; };
    return op_cases::failures_of(wrong);
  };
  for (const bool dynamic_batch : {false, true}) {
    EXPECT_THAT(failures_with({}, dynamic_batch), testing::Contains(HasSubstr("the reference gave 0 results")));
    EXPECT_THAT(failures_with({Doubles(15), Doubles(15)}, dynamic_batch),
                testing::Contains(HasSubstr("the reference gave 2 results; wanted one an output, 1")));
    for (const std::size_t count : {0, 7, 10, 20}) {
      if (dynamic_batch && count % 5 == 0 && count > 0) continue;  // another batch is no other result
      EXPECT_THAT(failures_with({Doubles(count)}, dynamic_batch),
                  testing::Contains(HasSubstr(std::to_string(count) + " elements wanted")));
    }
  }
}

TEST(OwnOperation, ACaseThatAsksForWhatCannotBeIsRefused) {
  OpCase other_output = swish_case("swish_other_output", {3, 5});
  other_output.gradient_outputs = {1};
  EXPECT_THAT([&] { (void)op_cases::failures_of(other_output); },
              testing::ThrowsMessage<ArgumentError>(HasSubstr("gradient_outputs names output 1 of 1")));
  OpCase no_values = swish_case("swish_no_values", {3, 5});
  no_values.inputs[0].away_from_zero = 4;
  EXPECT_THAT([&] { (void)op_cases::failures_of(no_values); },
              testing::ThrowsMessage<ArgumentError>(HasSubstr("no values from -4 to 4 are 4 away from 0")));
}

TEST(OwnOperation, ACaseFindsWhatKernelsMustNotDo) {
  const auto failures_with = [](acme::Fault fault) {
    return op_cases::failures_of(
        {.name = "careless",
         .inputs = {input({3, 5})},
         .build = [=](Graph&, const std::vector<Value>& in) { return std::vector{acme::careless(in[0], fault)}; },
         .reference = [](const std::vector<Doubles>& in) { return std::vector<Doubles>{in[0]}; },
         .gradient_outputs = {}});
  };
  EXPECT_THAT(failures_with(acme::Fault::none), testing::IsEmpty());
  EXPECT_THAT(failures_with(acme::Fault::writes_behind), testing::Contains(HasSubstr("wrote outside of its buffers")));
  EXPECT_THAT(failures_with(acme::Fault::writes_to_input), testing::Contains(HasSubstr("changed its input")));
  EXPECT_THAT(failures_with(acme::Fault::reads_output), testing::Contains(HasSubstr("against the run repeated on")));
}

/// Four dense layers with operations from outside behind them, each a section of its own where there are several.
ModelBuilder builder(int num_sections) {
  return [num_sections](Graph& graph, GraphSectionManager& manager) -> TrainableModel {
    const Value images = placeholder(graph, "images", {kDynamic, 28, 28, 1});
    const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
    Value x = flatten(images), loss;
    std::optional<SectionScope> section;
    for (int k = 0; k < 4; ++k) {
      if (k % (4 / num_sections) == 0) {
        section.reset();
        section.emplace(manager.new_section());
      }
      x = acme::shaken(acme::swish(dense(x, {.features = 32}), {1.5F}), 0.1F);
    }
    loss = mean(softmax_cross_entropy(dense(x, {.features = 10}), labels));
    section.reset();
    manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss);
    manager.prepare_training();
    const auto feeds = [=](const Batch& batch) { return Feeds{{images, batch.images}, {labels, batch.labels}}; };
    return {.loss = loss, .feeds = feeds};
  };
}

TEST(OwnOperation, TrainsToTheSameBitsUnderEveryStrategy) {
  const StrategySource source = {.model = [](const std::string& cut) { return builder(std::stoi(cut)); }};
  std::vector<Strategy> strategies;
  for (const char* name : {"whole", "swap", "lms:3/1/1/0", "sections:1", "sections:4", "sections+swap:4"}) {
    strategies.push_back(strategy_named(name, source));
  }
  const LabeledImages data = synthetic_mnist({.train_size = 200, .test_size = 1}).train;
  const Comparison comparison = compare_strategies(
      strategies,
      {.model = "acme",
       .steps = 4,
       .session = {.device_memory = 16_MiB, .threads = 2, .seed = 5, .poison = true, .check_schedules = true},
       .batch = [&](std::int64_t step) {
         BatchLoader loader(data, {.batch = 50, .seed = 1});
         std::optional<Batch> batch = loader.next();
         for (std::int64_t i = 0; i < step % 4; ++i) batch = loader.next();
         return *std::move(batch);
       }});
  ASSERT_EQ(comparison.strategies.size(), strategies.size());
  for (const StrategyResult& result : comparison.strategies) {
    EXPECT_TRUE(result.fits) << result.name << ": " << result.misfit;
    EXPECT_TRUE(result.identical) << result.name << ": " << result.difference;
    EXPECT_EQ(result.measured_peak_bytes, result.planned_peak_bytes) << result.name;
  }
  EXPECT_GT(comparison.strategies[4].recomputed_ops, 0);
}

TEST(OwnOperation, IsWrittenToFilesAndPicturesByItsName) {
  Graph graph;
  const Value y = acme::swish(placeholder(graph, "x", {2, 3}), {2.5F});
  const std::string text = graph_text(graph);
  EXPECT_THAT(text, AllOf(HasSubstr("acme.swish"), HasSubstr("slope")));
  Graph loaded;
  load_graph_text(loaded, text);
  EXPECT_EQ(graph_text(loaded), text);
  std::ostringstream dot;
  write_dot(dot, graph);
  EXPECT_THAT(dot.str(), HasSubstr("swish"));
  EXPECT_EQ(y.node().label(), "acme.swish 'swish'");
}

TEST(OwnOperation, AFileWithOneThatIsNotRegisteredIsRefusedByItsName) {
  Graph graph;
  (void)acme::swish(placeholder(graph, "x", {2, 3}));
  std::string text = graph_text(graph);
  const auto at = text.find("acme.swish");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 10, "acme.swosh");
  Graph loaded;
  try {
    load_graph_text(loaded, text);
    ADD_FAILURE() << "it was loaded";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("SF-E402"), HasSubstr("'acme.swosh', which this program has not"),
                                    HasSubstr("register_family"), HasSubstr("before the graph is loaded")));
  }
  EXPECT_EQ(loaded.num_nodes(), 0);
}

TEST(OwnOperation, AnUnknownNameSaysHowToRegisterIt) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  try {
    graph.add_node("somebody.softsign", {x}, {}, "softsign");
    ADD_FAILURE() << "it was made";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("SF-E010"), HasSubstr("'somebody.softsign'"), HasSubstr("register_family")));
  }
}

TEST(OwnOperation, BadOptionsAreRefusedByItsShapeRule) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  EXPECT_THROW(acme::swish(x, {-1.0F}), ArgumentError);
  EXPECT_EQ(graph.num_nodes(), 1);
}

TEST(OwnOperation, WithoutARuleIsRefusedWhereAGradientReachesIt) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const auto text_of_refusal = [](const auto& differentiate) -> std::string {
    try {
      differentiate();
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_THAT(text_of_refusal([&] { (void)gradients(reduce_sum(acme::twice(x)), {x}); }),
              AllOf(HasSubstr("SF-E031"), HasSubstr("acme.twice")));
  const Value dx = gradients(reduce_sum(acme::swish(x)), {x})[0];
  EXPECT_THAT(text_of_refusal([&] { (void)gradients(reduce_sum(dx), {x}); }),
              AllOf(HasSubstr("SF-E031"), HasSubstr("acme.swish_grad")));
}

TEST(OwnOperation, AGradientRuleThatBreaksItsPromiseIsToldByName) {
  using acme::WrongRule;
  const std::vector<std::pair<WrongRule, std::string>> wrong = {
      {WrongRule::none, "none for input 0, 'x'"},
      {WrongRule::one_too_many, "2 gradients for 1 input"},
      {WrongRule::other_shape, "f32[6,1] for input 0, 'x', which is f32[2,3]"},
      {WrongRule::other_dtype, "i32[2,3] for input 0, 'x', which is f32[2,3]"},
      {WrongRule::other_graph, "'x' of another graph for input 0"}};
  for (const auto& [rule, what] : wrong) {
    Graph graph;
    const Value x = placeholder(graph, "x", {2, 3});
    const Value loss = reduce_sum(acme::misruled(x, rule));
    const int before = graph.num_nodes();
    try {
      (void)gradients(loss, {x});
      ADD_FAILURE() << what << " was taken";
    } catch (const ArgumentError& error) {
      EXPECT_THAT(
          error.what(),
          AllOf(HasSubstr("SF-E010 ArgumentError: acme.misruled 'misruled': its gradient rule gave " + what),
                HasSubstr("path:"), HasSubstr("hint:    mend the rule that was registered for 'acme.misruled'")));
    }
    EXPECT_EQ(graph.num_nodes(), before);
  }
}

TEST(OwnOperation, ACaseReportsAGradientRuleThatBreaksItsPromise) {
  OpCase wrong = swish_case("misruled", {2, 3});
  wrong.build = [](Graph&, const std::vector<Value>& in) {
    return std::vector{acme::misruled(in[0], acme::WrongRule::other_dtype)};
  };
  wrong.reference = [](const std::vector<Doubles>& in) { return in; };
  EXPECT_THAT(op_cases::failures_of(wrong), testing::ElementsAre(HasSubstr("its gradient rule gave i32[")));
}

/// A kernel for GPUs stands beside those of the module that has the library's, whichever that is.
TEST(OwnOperation, ComputesByItsKernelOfCuda) {
  const EmulatedCuda emulated;
  EXPECT_TRUE(kernel_registry(DeviceKind::cuda).has("acme.twice"));
  EXPECT_TRUE(kernel_registry(DeviceKind::cuda).has_native_bf16("acme.twice"));
  EXPECT_TRUE(kernel_registry(DeviceKind::cuda).has("relu"));
  EXPECT_FALSE(kernel_registry(DeviceKind::cuda).has("acme.shaken"));
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic});
  const Value y = acme::twice(acme::twice(x) + 1.0F), noisy = acme::shaken(x, 1);
  Session session(graph, {.device = cuda(0), .device_memory = 1_MiB});
  session.initialize();
  const HostTensor fed = HostTensor::of<float>({3}, {1, 2, -3});
  const auto [found] = session.run({y}, {{x, fed}});
  EXPECT_TRUE(bitwise_equal(found, HostTensor::of<float>({3}, {6, 10, -10})));
  try {
    (void)session.run({noisy}, {{x, fed}});
    ADD_FAILURE() << "an op ran without a kernel";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("acme.shaken"), HasSubstr("has no kernel on")));
  }
}

}  // namespace
}  // namespace sectionflow
