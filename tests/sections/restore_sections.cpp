// Sections of graphs that were loaded.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "compare/compare_strategies.h"
#include "graph/graph_file.h"
#include "graph/ops/basic.h"
#include "tests/sections/small_net.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A small net with its manager, built here.
struct Built {
  explicit Built(const TrainingOptions& options = {}, bool trains = true,
                 const std::map<int, SectionOptions>& own_options = {})
      : net(graph, manager, own_options) {
    if (trains) manager.add_training_ops(Adam{}, net.loss, options);
  }
  Graph graph;
  GraphSectionManager manager{graph};
  SmallNet net;
};

/// A graph that was loaded, and a manager over it.
struct Loaded {
  explicit Loaded(const std::string& text) {
    load_graph_text(graph, text);
    manager = std::make_unique<GraphSectionManager>(graph);
  }
  Value find(Value other) { return graph.find(other.node().name()).output(other.output()); }
  Feeds feeds(const SmallNet& net) {
    Feeds feeds;
    for (const Feed& each : net.feeds()) feeds.push_back({find(each.value), each.data});
    return feeds;
  }
  Graph graph;
  std::unique_ptr<GraphSectionManager> manager;
};

SessionOptions small_session(std::size_t device_memory = 16_MiB) {
  SessionOptions options{.disk = 4_MiB, .threads = 1, .seed = 3};
  options.device_memory = device_memory;
  return options;
}

TrainingState train_built(Built& built) {
  built.manager.prepare_training();
  Session session(built.graph, small_session());
  session.initialize();
  TrainingState state;
  for (int i = 0; i < 3; ++i) {
    auto [loss] = built.manager.run_full_cycle(session, {built.net.loss}, built.net.feeds());
    state.losses.push_back(std::move(loss));
  }
  state.variables = read_variables(session);
  return state;
}

TrainingState train_loaded(Loaded& loaded, const SmallNet& net, std::size_t device_memory = 16_MiB) {
  loaded.manager->prepare_training();
  Session session(loaded.graph, small_session(device_memory));
  session.initialize();
  TrainingState state;
  for (int i = 0; i < 3; ++i) {
    auto [loss] = loaded.manager->run_full_cycle(session, {loaded.find(net.loss)}, loaded.feeds(net));
    state.losses.push_back(std::move(loss));
  }
  state.variables = read_variables(session);
  return state;
}

TEST(RestoredSections, TrainALoadedGraphAsTheOneThatWasBuilt) {
  Built built;
  const std::string text = graph_text(built.graph);
  const TrainingState wanted = train_built(built);
  Loaded loaded(text);
  const auto found = loaded.manager->restore_sections();
  ASSERT_EQ(loaded.manager->sections().size(), built.manager.sections().size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const GraphSection& section = loaded.manager->section(static_cast<int>(i));
    EXPECT_EQ(section.name(), built.manager.section(static_cast<int>(i)).name());
    EXPECT_EQ(section.operations().size(), built.manager.section(static_cast<int>(i)).operations().size());
    EXPECT_GT(found[i].gradient_applications, 0) << i;
  }
  EXPECT_EQ(loaded.manager->training_operations().size(), built.manager.training_operations().size());
  EXPECT_EQ(first_difference(wanted, train_loaded(loaded, built.net)), "");
  EXPECT_EQ(graph_text(loaded.graph), text) << "nothing was added";
}

TEST(RestoredSections, TrainUnderABudgetThatTheWholeGraphExceeds) {
  Built built;
  const TrainingState wanted = train_built(built);
  Loaded loaded(graph_text(built.graph));
  (void)loaded.manager->restore_sections();
  loaded.manager->prepare_training();
  std::size_t whole = 0, sections = 0;
  {
    Session planner(loaded.graph, small_session());
    FeedTypes types = {{loaded.find(built.net.images), {6, 8, 8, 3}},
                       {loaded.find(built.net.labels), Shape{6}},
                       {loaded.find(built.net.is_training), true}};
    const Value loss = loaded.find(built.net.loss);
    whole = planner.plan({loss}, types, {.targets = loaded.manager->training_operations()}).planned_peak_bytes;
    sections = loaded.manager->plan(planner, {loss}, types).planned_peak_bytes;
  }
  ASSERT_LT(sections, whole);
  EXPECT_EQ(first_difference(wanted, train_loaded(loaded, built.net, sections)), "");
}

TEST(RestoredSections, AreFoundWhereRanksHoldVariablesInShards) {
  Built built({.ranks = 2, .distribution = VariableDistribution::sharded});
  Loaded loaded(graph_text(built.graph));
  const auto found = loaded.manager->restore_sections();
  ASSERT_EQ(found.size(), built.manager.sections().size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_GT(found[i].gradient_applications, 0) << i;
  EXPECT_EQ(loaded.manager->training_operations().size(), built.manager.training_operations().size());
}

TEST(RestoredSections, KeepTensorsWhereTheOptionsSay) {
  Built built;
  const TrainingState wanted = train_built(built);
  const std::string text = graph_text(built.graph);
  for (const SectionOptions& options :
       {SectionOptions{.borders = BorderPolicy::host}, SectionOptions{.borders = BorderPolicy::disk},
        SectionOptions{.interior = InteriorPolicy::keep}}) {
    Loaded loaded(text);
    (void)loaded.manager->restore_sections({.sections = options});
    EXPECT_EQ(loaded.manager->section(1).options().borders, options.borders);
    EXPECT_EQ(first_difference(wanted, train_loaded(loaded, built.net)), "");
  }
}

TEST(RestoredSections, HaveTheOptionsThatTheyWereOpenedWithAndSoTheSamePlan) {
  const std::string tensor = Built().net.convolved[1].name();
  const std::map<int, SectionOptions> own = {
      {0, {.borders = BorderPolicy::host, .interior = InteriorPolicy::keep, .prefetch = 3}},
      {1, {.borders = BorderPolicy::disk, .tensors = {{tensor, BorderPolicy::host}}, .prefetch = 0}},
      {3, {.interior = InteriorPolicy::swap}}};
  Built built({}, true, own);
  const std::string text = graph_text(built.graph);
  const auto plan_text = [](GraphSectionManager& manager, Graph& graph, Value loss, const FeedTypes& types) {
    Session planner(graph, small_session());
    return manager.plan(planner, {loss}, types).text();
  };
  const auto plan_of = [&](Loaded& loaded) {
    FeedTypes types;
    for (FeedType each : built.net.types(6)) {
      each.value = loaded.find(each.value);
      types.push_back(std::move(each));
    }
    loaded.manager->prepare_training();
    return plan_text(*loaded.manager, loaded.graph, loaded.find(built.net.loss), types);
  };
  const TrainingState wanted = train_built(built);
  Loaded loaded(text);
  (void)loaded.manager->restore_sections();
  for (const auto& [index, options] : own) {
    const SectionOptions& found = loaded.manager->section(index).options();
    EXPECT_EQ(found.borders, options.borders) << index;
    EXPECT_EQ(found.interior, options.interior) << index;
    EXPECT_EQ(found.prefetch, options.prefetch) << index;
    EXPECT_EQ(found.tensors, options.tensors) << index;
  }
  EXPECT_EQ(graph_text(loaded.graph), text);
  const std::string same = plan_text(built.manager, built.graph, built.net.loss, built.net.types(6));
  EXPECT_EQ(plan_of(loaded), same);
  EXPECT_EQ(first_difference(wanted, train_loaded(loaded, built.net)), "");
  // Whoever trains it may say something else for all.
  Loaded other(text);
  (void)other.manager->restore_sections({.own_options = false});
  EXPECT_EQ(other.manager->section(0).options().borders, BorderPolicy::automatic);
  EXPECT_NE(plan_of(other), same);
  EXPECT_EQ(first_difference(wanted, train_loaded(other, built.net)), "");
}

TEST(RestoredSections, OfForgedOptionsAreRefusedAndTheManagerStaysEmpty) {
  for (const std::string forged :
       {"", "null", "[", R"({"borders":"host","interior":"keep"})",
        R"({"borders":"hots","interior":"keep","prefetch":1})", R"({"borders":3,"interior":"keep","prefetch":1})",
        R"({"borders":"host","interior":"keep","prefetch":-1})",
        R"({"borders":"host","interior":"keep","prefetch":1.5})",
        R"({"borders":"host","interior":"keep","prefetch":99999999999})",
        R"({"borders":"host","interior":"keep","prefetch":1,"tensors":{"x":"here"}})",
        R"({"borders":"host","interior":"keep","prefetch":1,"tensors":["x"]})"}) {
    Built built;
    HostTensor bytes(Dtype::u8, {static_cast<std::int64_t>(forged.size())});
    for (std::size_t i = 0; i < forged.size(); ++i) bytes.bytes()[i] = static_cast<std::byte>(forged[i]);
    const Value noted = constant(built.graph, std::move(bytes));
    {
      const GraphScope entered = built.graph.enter_group(1);
      built.graph.add_to_collection("section_options", noted);
    }
    Loaded loaded(graph_text(built.graph));
    EXPECT_THAT([&] { loaded.manager->restore_sections(); },
                ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E402"), HasSubstr("has no options of a section"),
                                               HasSubstr("own_options = false"))))
        << forged;
    EXPECT_TRUE(loaded.manager->sections().empty());
    EXPECT_EQ(loaded.manager->restore_sections({.own_options = false}).size(), 4U);
  }
  Built built;
  {
    const GraphScope entered = built.graph.enter_group(1);
    built.graph.add_to_collection("section_options", built.net.loss);
  }
  Loaded loaded(graph_text(built.graph));
  EXPECT_THAT([&] { loaded.manager->restore_sections(); },
              ThrowsMessage<DataError>(HasSubstr("it is no constant of bytes")));
}

TEST(RestoredSections, OfAGraphThatDoesNotTrainYetAreTrainedHere) {
  Built built({}, false), trained;
  const TrainingState wanted = train_built(trained);
  Loaded loaded(graph_text(built.graph));
  EXPECT_EQ(loaded.manager->restore_sections().size(), 4U);
  EXPECT_THROW(loaded.manager->prepare_training(), ArgumentError);
  loaded.manager->add_training_ops(Adam{}, loaded.find(built.net.loss));
  EXPECT_EQ(first_difference(wanted, train_loaded(loaded, trained.net)), "");
}

TEST(RestoredSections, OfAFileFromBeforeTheTrainingWasNotedTrainByItsTrainingOperations) {
  Built built;
  std::string text = graph_text(built.graph), old;
  const TrainingState wanted = train_built(built);
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    if (line.find("\"section_") == std::string::npos) {
      old += line + "\n";
    } else if (line.ends_with("]}")) {  // the last entry of all
      old.resize(old.size() - 2);
      old += "]}\n";
    }
  }
  EXPECT_EQ(old.find("section_gradients"), std::string::npos);
  Loaded loaded(old);
  (void)loaded.manager->restore_sections();
  EXPECT_EQ(first_difference(wanted, train_loaded(loaded, built.net)), "");
}

TEST(RestoredSections, HaveTheGlobalStepClippingAndSummaries) {
  const auto with_step = [](Graph& graph) {
    return variable("steps", fill(graph, {}, 0, Dtype::i64), {.trainable = false});
  };
  Graph graph;
  GraphSectionManager manager(graph);
  const SmallNet net(graph, manager);
  manager.add_training_ops(Adam{}, net.loss, {.global_step = with_step(graph), .clip_norm = 0.5F});
  Loaded loaded(graph_text(graph));
  (void)loaded.manager->restore_sections({.summaries = true});
  loaded.manager->prepare_training();
  Session session(loaded.graph, small_session());
  session.initialize();
  for (int i = 0; i < 2; ++i) (void)loaded.manager->run_full_cycle(session, {loaded.find(net.loss)}, loaded.feeds(net));
  EXPECT_EQ(session.read(loaded.graph.find("steps").output()).item<std::int64_t>(), 2);
  EXPECT_EQ(loaded.manager->gradient_summaries().size(), graph.values(kTrainableVariables).size());
}

TEST(RestoredSections, HaveTheMicroBatchesAveragesAndSkippedUpdates) {
  Built built({.micro_batches = 2, .skip_non_finite = true, .average = WeightAverageOptions{.decay = 0.5F}});
  const std::string text = graph_text(built.graph);
  const TrainingState wanted = train_built(built);
  Loaded loaded(text);
  (void)loaded.manager->restore_sections();
  EXPECT_EQ(first_difference(wanted, train_loaded(loaded, built.net)), "");
  const Updates &here = loaded.manager->updates(), &there = built.manager.updates();
  EXPECT_EQ(here.norm.name(), there.norm.name());
  EXPECT_EQ(here.skipped_updates.name(), there.skipped_updates.name());
  EXPECT_EQ(here.micro_batch.name(), there.micro_batch.name());
  EXPECT_EQ(here.operations.size(), there.operations.size());
  ASSERT_EQ(here.averages.size(), there.averages.size());
  for (std::size_t i = 0; i < here.averages.size(); ++i) {
    EXPECT_EQ(here.averages[i].variable.name(), there.averages[i].variable.name());
    EXPECT_EQ(here.averages[i].average.name(), there.averages[i].average.name());
  }
}

TEST(RestoredSections, OfAGraphThatIsTrainedAsAWholeTakeItsMicroBatches) {
  Built built({}, false);
  const Updates updates = training_updates(Adam{}, built.net.loss, {.micro_batches = 2});
  std::vector<Operation> targets = updates.operations;
  for (Operation average : built.graph.operations(kUpdateOperations)) targets.push_back(average);
  Session session(built.graph, small_session());
  session.initialize();
  TrainingState wanted;
  for (int i = 0; i < 3; ++i) {
    wanted.losses.push_back(std::move(session.run({built.net.loss}, built.net.feeds(), {.targets = targets})[0]));
  }
  wanted.variables = read_variables(session);
  Loaded loaded(graph_text(built.graph));
  (void)loaded.manager->restore_sections();
  EXPECT_EQ(loaded.manager->updates().micro_batch.name(), updates.micro_batch.name());
  EXPECT_EQ(loaded.manager->updates().operations.size(), updates.operations.size());
  EXPECT_EQ(first_difference(wanted, train_loaded(loaded, built.net)), "");
}

TEST(RestoredSections, GoToASecondManagerOfTheSameGraph) {
  Graph graph;
  Value loss;
  {
    GraphSectionManager first(graph);
    const SmallNet net(graph, first);
    first.add_training_ops(Sgd{}, net.loss);
  }
  GraphSectionManager second(graph);
  EXPECT_EQ(second.restore_sections().size(), 4U);
  EXPECT_NO_THROW(second.prepare_training());
}

TEST(RestoredSections, AreRefusedWhereThereAreNoneOrSomeAlready) {
  Built built;
  EXPECT_THAT([&] { built.manager.restore_sections(); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("has sections already"), HasSubstr("hint:"))));
  Graph plain;
  (void)placeholder(plain, "x", {2});
  GraphSectionManager manager(plain);
  EXPECT_THAT([&] { manager.restore_sections(); }, ThrowsMessage<ArgumentError>(HasSubstr("SF-E208")));
  Loaded loaded(graph_text(built.graph));
  EXPECT_THROW(loaded.manager->restore_sections({.sections = {.prefetch = -1}}), ArgumentError);
  (void)loaded.manager->restore_sections();
  EXPECT_THROW(loaded.manager->restore_sections(), ArgumentError);
  EXPECT_THAT([&] { loaded.manager->add_training_ops(Sgd{}, loaded.find(built.net.loss)); },
              ThrowsMessage<ArgumentError>(HasSubstr("SF-E209")));
}

TEST(RestoredSections, OfAForgedGraphAreRefusedAndTheManagerStaysEmpty) {
  Graph graph;
  GraphSectionManager manager(graph);
  const SmallNet net(graph, manager);
  // Says that it trains, and updates nothing.
  graph.add_to_collection("section_training_operations", Operation(net.loss.node()));
  Loaded loaded(graph_text(graph));
  EXPECT_THAT([&] { loaded.manager->restore_sections(); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E402"), HasSubstr("updates nothing"), HasSubstr("hint:"))));
  EXPECT_TRUE(loaded.manager->sections().empty());

  Built built;
  built.graph.add_to_collection("section_gradients", built.net.loss);
  Loaded uneven(graph_text(built.graph));
  EXPECT_THAT([&] { uneven.manager->restore_sections(); },
              ThrowsMessage<DataError>(HasSubstr("'section_gradients' has")));
  built.graph.add_to_collection("section_gradients", built.net.loss);
  Loaded no_gradient(graph_text(built.graph));
  EXPECT_THAT([&] { no_gradient.manager->restore_sections(); }, ThrowsMessage<DataError>(HasSubstr("is no gradient")));
}

TEST(RestoredSections, HaveTheNamesOfTheirGroups) {
  Graph graph;
  {
    GraphSectionManager manager(graph);
    for (const char* name : {"it's", "", "section 7", "section 0"}) {
      auto section = manager.new_section(name);
      (void)fill(graph, {2}, 1);
    }
  }
  Loaded loaded(graph_text(graph));
  (void)loaded.manager->restore_sections();
  std::vector<std::string> names;
  for (const auto& section : loaded.manager->sections()) names.push_back(section->name());
  EXPECT_THAT(names, ElementsAre("it's", "section 1", "section 7", "section 0"));
}

}  // namespace
}  // namespace sectionflow::testing
