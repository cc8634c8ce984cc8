// A cut changes no name, no initial value and no random number, and never more memory than it must.

#include <glog/logging.h>
#include <gtest/gtest.h>

#include "examples/models/mnist_resnet.h"
#include "graph/ops/random.h"
#include "tests/sections/small_net.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing {
namespace {

struct Described {
  std::vector<std::string> names;
  std::map<std::string, HostTensor> initial;
};

Described describe(Cut cut) {
  Graph graph;
  GraphSectionManager manager(graph);
  (void)build_mnist_resnet(graph, manager, {.cut = cut});
  Described result;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) result.names.push_back(graph.node(id).name());
  Session session(graph, {.threads = 1, .seed = 3});
  session.initialize();
  result.initial = read_variables(session);
  return result;
}

TEST(Cuts, AnotherCutHasTheSameNodesNamesAndInitialValues) {
  const Described one = describe(Cut{1});
  for (Cut cut : {Cut{2}, Cut{4}, Cut::blocks}) {
    Described other = describe(cut);
    EXPECT_EQ(one.names, other.names);
    ASSERT_EQ(one.initial.size(), other.initial.size());
    for (const auto& [name, tensor] : one.initial) EXPECT_TRUE(bitwise_equal(tensor, other.initial.at(name))) << name;
  }
}

TEST(Cuts, TrainingOperationsAndFetchesDoNotShiftRandomNumbers) {
  const auto drawn = [](bool train, bool fetch_more) {
    Graph graph;
    GraphSectionManager manager(graph);
    SmallNet net(graph, manager);
    if (train) {
      manager.add_training_ops(Adam{}, net.loss);
      manager.prepare_training();
    }
    const Value noise = random_normal(graph, {16});
    Session session(graph, {.threads = 1, .seed = 9});
    session.initialize();
    std::vector<Value> fetches = {noise};
    if (fetch_more) fetches.push_back(net.loss);
    auto fetched = session.run(fetches, net.feeds());
    return std::move(fetched[0]);
  };
  const HostTensor plain = drawn(false, false);
  EXPECT_TRUE(bitwise_equal(plain, drawn(true, false)));
  EXPECT_TRUE(bitwise_equal(plain, drawn(true, true)));
}

TEST(Cuts, RandomNumbersChangeFromCycleToCycleButNotInEvaluation) {
  SmallTraining t;
  const Value noise = random_normal(t.graph, {16});
  const auto [first] = t.session->run({noise}, t.net.feeds());
  const auto [again] = t.session->run({noise}, t.net.feeds());
  EXPECT_TRUE(bitwise_equal(first, again));
  const auto [loss] = t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
  const auto [later] = t.session->run({noise}, t.net.feeds());
  EXPECT_FALSE(bitwise_equal(first, later));
}

TEST(Cuts, PrintLogsOncePerCycleAlsoWhereItIsComputedAgain) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Value x = placeholder(graph, "x", {4, 3});
  Value y, loss;
  {
    auto section = manager.new_section();
    y = print(relu(dense(x, {.features = 3})), {.label = "first section"});
    y = relu(dense(y, {.features = 3}));
    y = relu(dense(y, {.features = 3}));
  }
  {
    auto section = manager.new_section();
    loss = mean(dense(y, {.features = 1}));
  }
  manager.add_training_ops(Sgd{}, loss);
  manager.prepare_training();
  Session session(graph, {.threads = 1});
  session.initialize();
  struct Counter : google::LogSink {
    Counter() { google::AddLogSink(this); }
    ~Counter() override { google::RemoveLogSink(this); }
    void send(google::LogSeverity, const char*, const char*, int, const google::LogMessageTime&, const char* message,
              std::size_t length) override {
      lines += std::string_view(message, length).find("first section") != std::string_view::npos ? 1 : 0;
    }
    int lines = 0;
  } counter;
  const HostTensor data = random_images({4, 3}, 1, 0);
  (void)manager.run_full_cycle(session, {loss}, {{x, data}});
  EXPECT_EQ(counter.lines, 1);
}

TEST(Cuts, SmallestBudgetOfEachCutTrainsAndOneByteLessIsRefusedBeforeAnythingRuns) {
  for (const char* cut : {"1", "2", "4", "blocks"}) {
    const auto build = [&](Graph& graph, GraphSectionManager& manager) {
      MnistResnet net = build_mnist_resnet(graph, manager, {.cut = cut_named(cut)});
      manager.set_section_options({.borders = BorderPolicy::keep});
      return net;
    };
    const HostTensor images = random_images({4, 28, 28, 1}, 1, 0);
    const HostTensor labels = random_classes(4, 10, 1, 0);
    std::size_t minimum = 0;
    {
      Graph graph;
      GraphSectionManager manager(graph);
      const MnistResnet net = build(graph, manager);
      Session session(graph);
      minimum = manager
                    .plan(session, {net.loss},
                          {{net.images, Shape{4, 28, 28, 1}}, {net.labels, Shape{4}}, {net.is_training, true}})
                    .planned_peak_bytes;
    }
    for (std::size_t missing : {0, 1}) {
      Graph graph;
      GraphSectionManager manager(graph);
      const MnistResnet net = build(graph, manager);
      Session session(graph, {.device_memory = minimum - missing});
      session.initialize();
      session.set_measuring(true);
      const TrainingState before{read_variables(session), {}};
      const Feeds feeds = {{net.images, images}, {net.labels, labels}, {net.is_training, true}};
      const auto cycle = [&] { (void)manager.run_full_cycle(session, {net.loss}, feeds); };
      if (missing == 0) {
        cycle();
        EXPECT_EQ(session.statistics().measured_peak_bytes, minimum) << cut;
        continue;
      }
      const std::string text = error_text<BudgetError>(cycle);
      EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 24) << text;
      EXPECT_NE(text.find(std::to_string(minimum)), std::string::npos) << text;
      EXPECT_EQ(first_difference(before, {read_variables(session), {}}), "") << cut;
      EXPECT_EQ(session.completed_cycles(), 0U);
    }
  }
}

TEST(Cuts, SectionsTrainInABudgetInWhichTheWholeGraphIsRefused) {
  Graph graph;
  GraphSectionManager manager(graph);
  const MnistResnet net = build_mnist_resnet(graph, manager, {.cut = Cut{4}});
  Session probe(graph);
  const FeedTypes types = {{net.images, Shape{8, 28, 28, 1}}, {net.labels, Shape{8}}, {net.is_training, true}};
  const std::size_t budget = manager.plan(probe, {net.loss}, types).planned_peak_bytes;
  Session session(graph, {.device_memory = budget});
  session.initialize();
  const HostTensor images = random_images({8, 28, 28, 1}, 1, 0);
  const HostTensor labels = random_classes(8, 10, 1, 0);
  const Feeds feeds = {{net.images, images}, {net.labels, labels}, {net.is_training, true}};
  EXPECT_THROW((void)session.run({net.loss}, feeds, {.targets = manager.training_operations()}), BudgetError);
  EXPECT_EQ(session.completed_cycles(), 0U);
  (void)manager.run_full_cycle(session, {net.loss}, feeds);
  EXPECT_EQ(session.completed_cycles(), 1U);
}

}  // namespace
}  // namespace sectionflow::testing
