// What holds for Lms on any graph: refusals, repetition, roll back, order.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "autodiff/optimizers.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/reduce.h"
#include "sections/graph_section_manager.h"
#include "swap/lms_graph.h"
#include "swap/lms_plan.h"
#include "swap/lms_rewrite.h"
#include "tests/support/contains.h"
#include "tests/swap/lms_graphs.h"

namespace sectionflow {
namespace {

using namespace testing_support;

template <class ErrorType = ArgumentError, class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// Parameters that leave nothing to be found.
LmsOptions manual() {
  return {.swapout_threshold = 1, .swapin_groupby = 0, .swapin_ahead = 1};
}

TEST(Lms, RefusesParametersThatMeanNothing) {
  const auto refused = [](const std::function<void(LmsOptions&)>& change) {
    LmsOptions options = manual();
    change(options);
    return error_of([&] { const Lms lms(options); });
  };
  const std::vector<std::pair<std::string, std::string>> texts = {
      {refused([](LmsOptions& o) { o.swapout_threshold = 0; }), "swapout_threshold is 0"},
      {refused([](LmsOptions& o) { o.swapin_ahead = 0; }), "swapin_ahead is 0"},
      {refused([](LmsOptions& o) { o.sync_mode = 4; }), "wanted 0 (none), 1 (swap-outs), 2 (swap-ins) or 3 (both)"},
      {refused([](LmsOptions& o) { o.sync_mode = -1; }), "sync_mode is -1"},
      {refused([](LmsOptions& o) { o.debug_level = 3; }), "debug_level is 3"},
      {refused([](LmsOptions& o) { o.batch_size = 0; }), "batch_size is 0"},
      {refused([](LmsOptions& o) { o.autotune_gpu_mem = -1.0; }), "autotune_gpu_mem is -1"},
      {refused([](LmsOptions& o) { o.serialization_by_size = NAN; }), "serialization_by_size is nan"},
      {refused([](LmsOptions& o) {
         o.serialization = {"3", "x:4"};
       }),
       "serialization has 'x:4'"},
      {refused([](LmsOptions& o) { o.serialization = {""}; }), "serialization has ''"},
      {refused([](LmsOptions& o) { o.serialization = {"1:2:0"}; }), "serialization has '1:2:0'"},
      {refused([](LmsOptions& o) { o.serialization = {"1:2:3:4"}; }), "serialization has '1:2:3:4'"},
      {refused([](LmsOptions& o) { o.serialization = {"99999999999"}; }), "serialization has '99999999999'"},
  };
  for (const auto& [text, wanted] : texts) {
    EXPECT_TRUE(contains(text, "SF-E110 ArgumentError: Lms: ")) << text;
    EXPECT_TRUE(contains(text, wanted)) << text;
    EXPECT_TRUE(contains(text, "lms_run.cpp:")) << text;
  }
}

TEST(Lms, ScopesAndTypesMustMatchSomething) {
  NamedGraph g;
  {
    const auto scope = g.graph.scope("block");
    build_mirror_chain(g, 4);
  }
  const std::string before = text_of_graph(g.graph);
  using Field = std::set<std::string> LmsOptions::*;
  const std::vector<std::pair<Field, std::string>> fields = {
      {&LmsOptions::excl_output_by_scopes, "excl_output_by_scopes"},
      {&LmsOptions::excl_output_by_types, "excl_output_by_types"},
      {&LmsOptions::excl_input_by_scopes, "excl_input_by_scopes"},
      {&LmsOptions::excl_input_by_types, "excl_input_by_types"},
      {&LmsOptions::incl_output_by_scopes, "incl_output_by_scopes"},
      {&LmsOptions::incl_output_by_types, "incl_output_by_types"},
      {&LmsOptions::incl_input_by_scopes, "incl_input_by_scopes"},
      {&LmsOptions::incl_input_by_types, "incl_input_by_types"}};
  for (const auto& [field, name] : fields) {
    LmsOptions options = manual();
    options.*field = {name.ends_with("scopes") ? "blocc" : "rely"};
    const std::string text = error_of([&] { Lms(options).run(g.graph); });
    EXPECT_TRUE(contains(text, text_of("SF-E111 ArgumentError: Lms: ", name))) << text;
    const bool is_type = name.ends_with("types");
    EXPECT_TRUE(contains(text, is_type ? "has that op\n" : "has that prefix of its name\n")) << text;
    EXPECT_TRUE(contains(text, is_type ? "did you mean 'relu'?" : "write_dot(stream, graph)")) << text;
    EXPECT_EQ(text_of_graph(g.graph), before);
  }
}

TEST(Lms, ScopesArePrefixesAndExclusionWins) {
  const auto swapped = [](const std::function<void(LmsOptions&)>& change) {
    NamedGraph g;
    Value x = g.input();
    std::vector<Value> kept;
    for (const char* name : {"near", "nearby", "far"}) {
      const auto scope = g.graph.scope(name);
      kept.push_back(x = g.add(name, relu(x)));
    }
    const auto scope = g.graph.scope("back");
    for (auto value = kept.rbegin(); value != kept.rend(); ++value) x = sectionflow::add(relu(x), *value);
    LmsOptions options = manual();
    change(options);
    Lms(options).run(g.graph);
    std::set<std::string> names;
    for (NodeId id = 0; id < g.graph.num_nodes(); ++id) {
      const Node& node = g.graph.node(id);
      if (node.op().movement == Movement::out) names.insert(g.name_of(node.inputs()[0].node()));
    }
    return names;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(swapped([](LmsOptions&) {}), (Names{"far", "near", "nearby"}));
  EXPECT_EQ(swapped([](LmsOptions& o) { o.excl_output_by_scopes = {"near"}; }), (Names{"far"}));
  EXPECT_EQ(swapped([](LmsOptions& o) { o.excl_output_by_scopes = {"nearby"}; }), (Names{"far", "near"}));
  EXPECT_EQ(swapped([](LmsOptions& o) { o.incl_output_by_scopes = {"near"}; }), (Names{"near", "nearby"}));
  EXPECT_EQ(swapped([](LmsOptions& o) {
              o.incl_output_by_scopes = {"near"};
              o.excl_output_by_scopes = {"nearby"};
            }),
            (Names{"near"}));
  EXPECT_EQ(swapped([](LmsOptions& o) { o.excl_input_by_scopes = {"back"}; }), (Names{}));
  EXPECT_EQ(swapped([](LmsOptions& o) { o.incl_input_by_types = {"relu"}; }), (Names{}));
  EXPECT_EQ(swapped([](LmsOptions& o) { o.excl_output_by_types = {"relu"}; }), (Names{}));
  EXPECT_EQ(swapped([](LmsOptions& o) { o.excl_input_by_types = {"add"}; }), (Names{}));
}

TEST(Lms, NeverSwapsVectorsVariablesConstantsAndRandomNumbers) {
  Graph graph;
  const Value x = placeholder(graph, "x", {5});
  const Value v = variable("v", fill(graph, {5, 5}, 1));
  Value vector = relu(x), y = relu(v);
  const Value constant_value = fill(graph, {5, 5}, 2);
  for (int i = 0; i < 5; ++i) y = relu(y);
  y = sectionflow::add(sectionflow::add(y, constant_value), v);
  for (int i = 0; i < 5; ++i) y = sectionflow::add(y, v);
  const Value first = relu(vector);
  Value far = vector;
  for (int i = 0; i < 5; ++i) far = relu(far);
  sectionflow::add(far, vector);
  assign(v, y);
  const LmsResult result = Lms(manual()).run(graph);
  EXPECT_EQ(result.num_swap_outs, 0);
  EXPECT_EQ(graph.num_edits(), 0);
  EXPECT_TRUE(first.valid());
}

TEST(Lms, ASecondRunDoesNothing) {
  NamedGraph g;
  build_mirror_chain(g, 4);
  const LmsResult first = Lms(manual()).run(g.graph);
  EXPECT_FALSE(first.already_edited);
  EXPECT_EQ(first.num_swap_outs, 4);
  const std::string edited = text_of_graph(g.graph);
  const LmsResult second = Lms().run(g.graph);
  EXPECT_TRUE(second.already_edited);
  EXPECT_EQ(second.num_swap_outs, 0);
  EXPECT_EQ(text_of_graph(g.graph), edited);
}

TEST(Lms, TheSameGraphIsEditedTheSameWay) {
  for (int mode = 0; mode <= 3; ++mode) {
    std::vector<std::string> texts;
    for (int run = 0; run < 2; ++run) {
      NamedGraph g;
      build_mirror_chain(g, 6);
      LmsOptions options = manual();
      options.sync_mode = mode;
      options.serialization = {"3:"};
      Lms(options).run(g.graph);
      texts.push_back(text_of_graph(g.graph));
    }
    EXPECT_EQ(texts[0], texts[1]);
  }
}

TEST(Lms, NamesItsNodesAfterTheTensor) {
  NamedGraph g;
  {
    const auto scope = g.graph.scope("net");
    build_mirror_chain(g, 1);
  }
  const auto open = g.graph.scope("elsewhere");
  Lms(manual()).run(g.graph);
  EXPECT_EQ(g.graph.find("lms/swapout_net_relu_0").op().name, "swap_out");
  EXPECT_EQ(g.graph.find("lms/swapin_net_relu_0").op().name, "swap_in");
}

TEST(Lms, EverySlotThatCarriedTheTensorIsRewired) {
  Graph graph;
  const Value a = relu(placeholder(graph, "x", {5, 5}));
  const Value late = relu(relu(relu(a)));
  const Value sum = add_n({a, late, a});
  Lms(manual()).run(graph);
  EXPECT_EQ(sum.node().inputs()[0], sum.node().inputs()[2]);
  EXPECT_EQ(sum.node().inputs()[0].node().op().name, "swap_in");
  EXPECT_EQ(sum.node().inputs()[1], late);
}

TEST(Lms, AFailureLeavesTheGraphAsItWas) {
  NamedGraph g;
  build_mirror_chain(g, 4);
  const std::string before = text_of_graph(g.graph);
  const int nodes = g.graph.num_nodes();
  // Serialization has put order edges in when the simulation finds that nothing fits.
  LmsOptions options{.serialization = {"3:5"}, .autotune_gpu_mem = 1e-9};
  EXPECT_TRUE(contains(error_of([&] { Lms(options).run(g.graph); }), "SF-E113"));
  EXPECT_EQ(g.graph.num_nodes(), nodes);
  EXPECT_EQ(text_of_graph(g.graph), before);
  // A name that was given back is free again.
  Lms(manual()).run(g.graph);
  EXPECT_EQ(g.graph.find("lms/swapout_relu_0").op().name, "swap_out");
}

TEST(Lms, WhereNothingFitsTheMemoryToGiveIsTold) {
  const auto run = [](std::size_t device_memory) {
    NamedGraph g;
    build_mirror_chain(g, 4);
    return error_of([&] { Lms({.device = cpu(), .device_memory = device_memory}).run(g.graph); });
  };
  const std::string text = run(64);
  EXPECT_TRUE(contains(text, "SF-E113")) << text;
  const std::string before = "give a device_memory of ";
  ASSERT_TRUE(contains(text, before)) << text;
  const std::size_t told = std::stoull(text.substr(text.find(before) + before.size()));
  EXPECT_FALSE(contains(run(told), "SF-E113")) << told;
  EXPECT_TRUE(contains(run(told / 2), "SF-E113")) << told;
}

TEST(Lms, ACircleIsRefused) {
  NamedGraph g;
  build_mirror_chain(g, 2);
  g.graph.add_control_edge(Operation(g.at("L")), Operation(g.at("f1")));
  const std::string before = text_of_graph(g.graph);
  EXPECT_TRUE(contains(error_of([&] { Lms(manual()).run(g.graph); }), "SF-E011"));
  EXPECT_EQ(text_of_graph(g.graph), before);
}

TEST(Lms, SectionsRefuseAnEditedGraph) {
  Graph graph;
  GraphSectionManager manager(graph);
  Value loss;
  {
    const auto section = manager.new_section();
    const Value v = variable("v", fill(graph, {5, 5}, 1));
    loss = mean(sectionflow::add(relu(relu(relu(relu(v)))), relu(v)));
  }
  manager.add_training_ops(Sgd{}, loss);
  EXPECT_GT(Lms(manual()).run(graph).num_swap_outs, 0);
  const std::string text = error_of([&] { manager.prepare_training(); });
  EXPECT_TRUE(contains(text, "SF-E210") && contains(text, "sections swap by themselves")) << text;
}

TEST(Lms, SectionsThatWerePreparedBeforeRefuseToo) {
  Graph graph;
  GraphSectionManager manager(graph);
  Value loss;
  {
    const auto section = manager.new_section();
    const Value v = variable("v", fill(graph, {5, 5}, 1));
    loss = mean(sectionflow::add(relu(relu(relu(relu(v)))), relu(v)));
  }
  manager.add_training_ops(Sgd{}, loss);
  manager.prepare_training();
  Session session(graph);
  EXPECT_TRUE(manager.plan(session, {loss}, {}).fits);
  const LmsResult edited = Lms(manual()).run(graph);
  EXPECT_GT(edited.num_swap_outs, 0);
  EXPECT_TRUE(contains(edited.log.at(1), "has a section manager, which is going to refuse every cycle"));
  const std::string text = error_of([&] { manager.plan(session, {loss}, {}); });
  EXPECT_TRUE(contains(text, "SF-E210")) << text;
  // Trained as a whole it still runs.
  EXPECT_TRUE(session.plan({loss}, {}, {.targets = manager.training_operations()}).fits);
}

TEST(Lms, BatchNormsOfTheOtherModeStay) {
  const auto swaps = [](bool trains, bool lms_trains) {
    Graph graph;
    const Value x = relu(placeholder(graph, "x", {8, 4}));
    const auto vector = [&](const char* name) { return variable(name, fill(graph, {4}, 1)); };
    const Value is_training = constant(graph, HostTensor::scalar(trains));
    Value y = batch_norm(x, vector("s"), vector("b"), vector("m"), vector("v"), is_training).y;
    const Value skip = y;
    for (int i = 0; i < 4; ++i) y = relu(y);
    sectionflow::add(y, skip);
    LmsOptions options{.swapout_threshold = 1, .swapin_groupby = 0, .swapin_ahead = 1, .is_training = lms_trains};
    return Lms(options).run(graph).num_swap_outs;
  };
  EXPECT_EQ(swaps(true, true), 1);
  EXPECT_EQ(swaps(false, false), 1);
  EXPECT_EQ(swaps(true, false), 0);
  EXPECT_EQ(swaps(false, true), 0);
}

// The ancestor's documentation says that modes 2 and 3 ignore groupby; its code groups all the same, and then leaves
// what is grouped without synchronisation. The documentation holds here.
TEST(Lms, SyncModesOfSwapInsDoNotGroup) {
  for (const int mode : {2, 3}) {
    NamedGraph g;
    build_fan(g);
    LmsOptions options = manual();
    options.sync_mode = mode;
    options.swapin_groupby = 9;
    EXPECT_EQ(Lms(options).run(g.graph).num_swap_ins, 4);
    const std::map<std::string, std::string> wanted = {{"n3", "n2"}, {"n4", "n3"}, {"n8", "n7"}, {"n12", "n11"}};
    EXPECT_EQ(triggers(g), wanted);
  }
}

TEST(Lms, NothingWaitsForAnUpdate) {
  Graph graph;
  const Value v = variable("v", fill(graph, {5, 5}, 1));
  const Value a = relu(v);
  Value y = relu(a);
  for (int i = 0; i < 4; ++i) y = relu(y);
  // d reads a alone; one level below it stand an update of v, which a reads, and y.
  const Value d = relu(a);
  graph.add_order_edge(Operation(y), Operation(d));
  assign(v, relu(y));
  LmsOptions options = manual();
  options.sync_mode = 3;
  EXPECT_EQ(Lms(options).run(graph).num_swap_outs, 1);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    for (const Node* before : graph.node(id).order_inputs()) EXPECT_TRUE(before->op().updated_inputs.empty());
  }
}

TEST(Lms, OnlyTenLevelsAreSearchedForAControlOperation) {
  Graph graph;
  const Value x = placeholder(graph, "x", {5, 5});
  const Value a = relu(x);
  std::vector<Value> chain = {a};
  for (int i = 0; i < 30; ++i) chain.push_back(relu(chain.back()));
  // d reads a and the end of a chain that comes from x alone, so that only the chain is below it.
  const Value d = sectionflow::add(a, chain.back());
  const LmsGraph view(graph, {});
  const LmsLevels levels = lms_levels(graph);
  const NodeId source = a.node().id(), reader = d.node().id();
  EXPECT_EQ(levels.of(reader), 32);
  EXPECT_EQ(levels.of(*find_trigger(view, levels, source, reader, 1)), 30);
  EXPECT_EQ(levels.of(*find_trigger(view, levels, source, reader, 29)), 2);
  EXPECT_FALSE(find_trigger(view, levels, source, reader, 30));
  // Beside the chain: a node far below the reader, with nothing in the levels between.
  const Value side = relu(x);
  const Value e = sectionflow::add(sectionflow::add(a, side), a);
  graph.add_control_edge(Operation(chain.back()), Operation(e));
  const LmsGraph again(graph, {});
  const LmsLevels more = lms_levels(graph);
  EXPECT_EQ(more.of(e.node().id()), 32);
  EXPECT_FALSE(find_trigger(again, more, side.node().id(), e.node().id(), 1));
}

TEST(Lms, LogsTheFactsOfTheAncestor) {
  NamedGraph g;
  build_mirror_chain(g, 4);
  LmsOptions options = manual();
  options.debug = true;
  options.debug_level = 2;
  options.serialization = {"5"};
  const LmsResult result = Lms(options).run(g.graph);
  std::string text;
  for (const std::string& line : result.log) text += line + "\n";
  for (const char* part :
       {"[LMS][0] Editing the graph", "[LMS][0] The graph has 14 vertices and 17 edges",
        "0.00 MiB of learning parameters", "[LMS][0] Original number of levels: 11",
        "[LMS][0]   serialization: ", "[LMS][0]   levels after serialization: 11",
        "[LMS][0] Configuration given by the user", "[LMS][0]   sync_mode: 0 (asynchronous",
        "[LMS][0]   swapout_threshold: 1", "[LMS][0]   swapin_ahead: 1", "[LMS][0]   swapin_groupby: 0",
        "[LMS][0] Added 8 operations to the graph: 4 swap-outs (0.00 GiB) and 4 swap-ins (0.00 GiB)",
        "[LMS][0] Edited in ", "[LMS][1]   swap-out of relu f32[5,5]", "[LMS][1]   control edge from ", "[LMS][2] "}) {
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  }
  EXPECT_EQ(result.largest_op, "add");
  EXPECT_EQ(result.largest_op_bytes, 300U);
}

TEST(Lms, TheEnvironmentIsChecked) {
  for (const char* variable : {"TF_LMS_SIMULATOR_MEM_RATIO", "TF_GPU_HOST_MEM_LIMIT_IN_MB"}) {
    NamedGraph g;
    build_mirror_chain(g, 2);
    const std::string before = text_of_graph(g.graph);
    setenv(variable, "much", 1);
    const std::string text = error_of([&] { Lms(manual()).run(g.graph); });
    unsetenv(variable);
    EXPECT_TRUE(contains(text, "SF-E110")) << text;
    EXPECT_TRUE(contains(text, variable)) << text;
    EXPECT_EQ(text_of_graph(g.graph), before);
  }
}

}  // namespace
}  // namespace sectionflow
