// What event files tell of graphs, runs, gradients and weights.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "graph/layers.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "swap/planned_trace.h"
#include "tests/support/temporary_folder.h"
#include "train/event_file.h"
#include "train/event_writer.h"

namespace sectionflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Two layers in two sections, with summaries, that have been trained a step.
struct Summarised {
  explicit Summarised(bool summaries = true) {
    {
      auto section = manager.new_section("stem / \"odd\"");
      h = relu(dense(x, {.features = 5}));
    }
    {
      auto section = manager.new_section();
      loss = mean(softmax_cross_entropy(dense(h, {.features = 3}), y));
    }
    manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss, {.summaries = summaries});
    manager.prepare_training();
    session.initialize();
  }
  void step() {
    const HostTensor data = HostTensor::of<float>({2, 4}, {1, -2, 3, 4, 5, 6, -7, 8});
    const HostTensor labels = HostTensor::of<std::int32_t>({2}, {0, 2});
    manager.run_full_cycle(session, {loss}, {{x, data}, {y, labels}});
  }
  std::vector<LoggedEvent> events() const { return read_events(writer.path()); }

  Graph graph;
  GraphSectionManager manager{graph};
  Value x = placeholder(graph, "x", {kDynamic, 4}), y = placeholder(graph, "y", {kDynamic}, Dtype::i32);
  Value h, loss;
  Session session{graph, {.threads = 1}};
  TemporaryFolder folder;
  EventWriter writer{folder.path().string()};
};

/// The name without what TensorBoard does not take: [A-Za-z0-9.][A-Za-z0-9_.\-/]*.
bool is_taken(const std::string& name) {
  const auto is_plain = [](char letter) { return std::isalnum(static_cast<unsigned char>(letter)) || letter == '.'; };
  if (name.empty() || !is_plain(name.front()) || name.find("//") != std::string::npos || name.back() == '/')
    return false;
  return std::all_of(name.begin(), name.end(),
                     [&](char letter) { return is_plain(letter) || letter == '_' || letter == '-' || letter == '/'; });
}

TEST(EventNames, HaveTheSectionAsOutermostScope) {
  const Summarised trained;
  const std::vector<std::string> names = event_names(trained.graph);
  const auto name_of = [&](const std::string& node) {
    return names.at(static_cast<std::size_t>(trained.graph.find(node).id()));
  };
  EXPECT_EQ(name_of("x"), "x");
  EXPECT_EQ(name_of("dense/kernel"), "section_0_stem____odd_/dense/kernel");
  EXPECT_EQ(name_of(trained.loss.name()), "section_1/" + trained.loss.name());
}

TEST(EventNames, OfOddNodesArePlainAndStayApart) {
  Graph graph;
  std::vector<Value> values;
  for (const std::string name : {"a b", "a_b", "a\"b", "^a", "a:1", "a", "_a", "-a", "\xc3\xa9", "\xff", "a//b", "a/",
                                 "b/", "a\nb", "a'b", "<>", " "}) {
    values.push_back(placeholder(graph, name, {2}));
  }
  const std::vector<std::string> names = event_names(graph);
  ASSERT_EQ(names.size(), values.size());
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) EXPECT_TRUE(is_taken(name)) << name;
}

TEST(EventGraph, HasEveryNodeItsInputsAndItsShapes) {
  Summarised trained;
  trained.writer.graph(trained.graph);
  const auto graph = trained.events().at(1).graph;
  ASSERT_TRUE(graph.has_value());
  const std::vector<std::string> names = event_names(trained.graph);
  ASSERT_EQ(graph->size(), names.size());
  const std::set<std::string> known(names.begin(), names.end());
  for (NodeId id = 0; id < trained.graph.num_nodes(); ++id) {
    const Node& node = trained.graph.node(id);
    const LoggedNode& logged = graph->at(static_cast<std::size_t>(id));
    EXPECT_EQ(logged.name, names[static_cast<std::size_t>(id)]);
    EXPECT_EQ(logged.op, node.op().name);
    ASSERT_EQ(logged.inputs.size(), node.inputs().size() + node.control_inputs().size());
    for (std::string input : logged.inputs) {
      if (input.front() == '^') input.erase(0, 1);
      EXPECT_TRUE(known.contains(input.substr(0, input.find(':')))) << input;
    }
    ASSERT_EQ(logged.output_shapes.size(), node.output_types().size());
    for (std::size_t i = 0; i < logged.output_shapes.size(); ++i) {
      EXPECT_EQ(logged.output_shapes[i], node.output_types()[i].shape);
    }
  }
  const LoggedNode& placeholder = graph->at(static_cast<std::size_t>(trained.x.node().id()));
  EXPECT_THAT(placeholder.output_shapes, ElementsAre(Shape{kDynamic, 4}));
}

TEST(EventGraph, TheSameGraphHasTheSameBytes) {
  Summarised a, b;
  for (Summarised* trained : {&a, &b}) trained->writer.graph(trained->graph);
  const auto behind_times = [](const std::string& file) { return file.substr(40 + 12 + 9); };
  const std::string of_a = behind_times(bytes_of_file(a.writer.path())),
                    of_b = behind_times(bytes_of_file(b.writer.path()));
  EXPECT_EQ(of_a.substr(0, of_a.size() - 4), of_b.substr(0, of_b.size() - 4)) << "but for the checksum with the time";
}

TEST(EventGraph, AnEmptyGraphIsAGraph) {
  const TemporaryFolder folder;
  EventWriter writer(folder.path().string());
  writer.graph(Graph());
  const auto events = read_events(writer.path());
  ASSERT_TRUE(events.at(1).graph.has_value());
  EXPECT_TRUE(events[1].graph->empty());
}

TEST(RunMetadata, HasEachOperationOnceWithAllItsTimeAndItsBytes) {
  Summarised trained;
  Trace trace;
  trained.session.set_trace(&trace);
  for (int i = 0; i < 2; ++i) trained.step();
  for (const bool measured : {true, false}) {
    const Trace planned = planned_trace(trained.session);
    trained.writer.run_metadata(measured ? "measured" : "planned", measured ? trace : planned, trained.graph, 2);
  }
  const std::vector<LoggedEvent> events = trained.events();
  ASSERT_EQ(events.size(), 3U);
  const std::vector<std::string> names = event_names(trained.graph);
  std::map<std::string, double> wanted_us;
  std::map<std::string, std::size_t> wanted_bytes;
  bool replays = false;
  for (const Trace::Event& event : trace.last_execution()) {
    if (event.kind != StepKind::compute && event.kind != StepKind::feed) continue;
    const std::string& name = names[static_cast<std::size_t>(event.node)];
    wanted_us[name] += event.duration_us;
    wanted_bytes[name] = std::max(wanted_bytes[name], event.output_bytes);
    replays = replays || event.replay;
  }
  EXPECT_TRUE(replays) << "the first section is computed again";
  for (std::size_t i : {1U, 2U}) {
    ASSERT_TRUE(events[i].run.has_value());
    EXPECT_EQ(events[i].run->tag, i == 1 ? "measured" : "planned");
    EXPECT_EQ(events[i].step, 2);
    ASSERT_EQ(events[i].run->devices.size(), 1U);
    EXPECT_EQ(events[i].run->devices[0].name, "/device:CPU:0");
    const auto& executions = events[i].run->devices[0].executions;
    EXPECT_EQ(executions.size(), wanted_us.size());
    for (const LoggedExecution& execution : executions) {
      ASSERT_TRUE(wanted_us.contains(execution.node)) << execution.node;
      EXPECT_EQ(execution.output_bytes, static_cast<std::int64_t>(wanted_bytes[execution.node]));
      EXPECT_GE(execution.peak_bytes, execution.output_bytes);
      EXPECT_GT(execution.bytes_in_use, 0);
      EXPECT_GE(execution.duration_us, 1);
      if (i == 1) {
        EXPECT_LE(execution.duration_us, wanted_us[execution.node] + 1.001);
        EXPECT_GE(execution.duration_us, wanted_us[execution.node]);
      }
    }
  }
}

TEST(RunMetadata, OfNothingIsEmptyAndOfAnotherGraphRefused) {
  Summarised trained;
  Trace trace;
  trained.writer.run_metadata("nothing", trace, trained.graph, 0);
  EXPECT_TRUE(trained.events().at(1).run->devices.at(0).executions.empty());
  trained.session.set_trace(&trace);
  trained.step();
  const Graph other;
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { trained.writer.run_metadata("other", trace, other, 0); }),
              HasSubstr("SF-E433"));
  EXPECT_EQ(trained.events().size(), 2U);
}

TEST(EventHistograms, GradientsAndWeightsAreGroupedBySection) {
  Summarised trained;
  trained.step();
  trained.writer.gradients(trained.manager, 1);
  trained.writer.weights(trained.session, 1);
  const std::vector<LoggedEvent> events = trained.events();
  ASSERT_EQ(events.size(), 3U);
  const std::vector<std::string> variables = {" of section 0 'stem _ \"odd\"'/dense/kernel",
                                              " of section 0 'stem _ \"odd\"'/dense/bias",
                                              " of section 1/dense_1/kernel", " of section 1/dense_1/bias"};
  for (const auto& [event, what] : {std::pair(events[1], "gradients"), std::pair(events[2], "weights")}) {
    std::set<std::string> tags, wanted;
    for (const LoggedHistogram& histogram : event.histograms) tags.insert(histogram.tag);
    for (const std::string& variable : variables) wanted.insert(what + variable);
    EXPECT_EQ(tags, wanted);
  }
  const HostTensor kernel = trained.session.read(trained.graph.find("dense/kernel").output());
  const Histogram wanted = histogram_of(kernel.values<float>());
  for (const LoggedHistogram& histogram : events[2].histograms) {
    if (!histogram.tag.ends_with("/dense/kernel")) continue;
    EXPECT_EQ(histogram.histogram.bucket_counts, wanted.bucket_counts);
  }
}

TEST(EventHistograms, WithoutSummariesThereAreNoGradients) {
  Summarised trained(false);
  trained.step();
  trained.writer.gradients(trained.manager, 1);
  EXPECT_EQ(trained.events().size(), 1U);
}

TEST(EventHistograms, OfWeightsOfEveryFloatTypeAreWritten) {
  Graph graph;
  variable("single", fill(graph, {2}, 1));
  variable("double", fill(graph, {3}, 2, Dtype::f64));
  variable("half", fill(graph, {4}, 3, Dtype::bf16));
  Session session(graph, {.threads = 1});
  const TemporaryFolder folder;
  EventWriter writer(folder.path().string());
  EXPECT_THROW(writer.weights(session, 0), ArgumentError) << "no values yet";
  EXPECT_EQ(read_events(writer.path()).size(), 1U);
  session.initialize();
  writer.weights(session, 0);
  const auto histograms = read_events(writer.path()).at(1).histograms;
  ASSERT_EQ(histograms.size(), 3U);
  const char* const names[] = {"single", "double", "half"};
  for (int i = 0; i < 3; ++i) {
    const LoggedHistogram& logged = histograms[static_cast<std::size_t>(i)];
    EXPECT_EQ(logged.tag, text_of("weights outside of sections/", names[i]));
    EXPECT_EQ(logged.histogram.num, i + 2);
    EXPECT_EQ(logged.histogram.min, i + 1);
    EXPECT_EQ(logged.histogram.max, i + 1);
  }
}

}  // namespace
}  // namespace sectionflow
