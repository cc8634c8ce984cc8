// Graphs and weights that are saved before or after Lms has edited them.

#include <gtest/gtest.h>

#include <filesystem>

#include "base/bytes.h"
#include "compare/compare_strategies.h"
#include "examples/models/zoo.h"
#include "graph/graph_file.h"
#include "graph/op_def.h"
#include "swap/lms.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoint.h"

namespace sectionflow {
namespace {

int num_swap_nodes(const Graph& graph) {
  int count = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    count += graph.node(id).op().movement != Movement::none ? 1 : 0;
  }
  return count;
}

/// Three steps of the small convolutional network in a graph that was built or loaded.
class SavedGraph : public testing::Test {
 protected:
  SavedGraph() { model_ = zoo_.build(built_, manager_); }

  LmsResult edit(Graph& graph) {
    return Lms({.swapout_threshold = 2, .swapin_groupby = 2, .swapin_ahead = 1}).run(graph);
  }
  TrainingState train(Graph& graph, const std::string& weights = {}) {
    Session session(graph, {.device_memory = 64_MiB, .threads = 1, .seed = 3});
    session.initialize();
    if (!weights.empty()) load_variables(session, weights);
    TrainingState state;
    for (std::int64_t step = 0; step < 3; ++step) {
      const Batch batch = zoo_.batch({.batch = 4, .seed = 3, .step = step});
      Feeds feeds;
      for (const Feed& feed : model_.feeds(batch))
        feeds.push_back({graph.find(feed.value.node().name()).output(), feed.data});
      auto [loss] = session.run({graph.find(model_.loss.node().name()).output(model_.loss.output())}, feeds,
                                {.targets = graph.operations(kTrainingOperations)});
      state.losses.push_back(std::move(loss));
    }
    state.variables = read_variables(session);
    return state;
  }

  ZooModel zoo_ = zoo_model("mnist_cnn", {.optimizer = Adam{}, .image = 12, .width = 4});
  Graph built_;
  GraphSectionManager manager_{built_};
  TrainableModel model_;
  TemporaryFolder folder_;
};

TEST_F(SavedGraph, HasItsSwapNodesWhenItIsSavedAfterTheEditAndNoneBefore) {
  const TrainingState plain = train(built_);
  const std::string before = (folder_.path() / "before.json").string(),
                    after = (folder_.path() / "after.json").string();
  save_graph(built_, before);
  const LmsResult result = edit(built_);
  ASSERT_GT(result.num_swap_outs, 3);
  save_graph(built_, after);

  Graph loaded_before, loaded_after;
  load_graph(loaded_before, before);
  load_graph(loaded_after, after);
  EXPECT_EQ(num_swap_nodes(loaded_before), 0);
  EXPECT_EQ(num_swap_nodes(loaded_after), result.num_swap_outs + result.num_swap_ins);
  EXPECT_EQ(graph_text(loaded_after), graph_text(built_));
  EXPECT_EQ(first_difference(plain, train(built_)), "");
  EXPECT_EQ(first_difference(plain, train(loaded_before)), "");
  EXPECT_EQ(first_difference(plain, train(loaded_after)), "");
}

TEST_F(SavedGraph, IsRecognisedAsEditedWhenItIsLoaded) {
  (void)edit(built_);
  Graph loaded;
  load_graph_text(loaded, graph_text(built_));
  const int num_nodes = loaded.num_nodes();
  EXPECT_TRUE(edit(loaded).already_edited);
  EXPECT_EQ(loaded.num_nodes(), num_nodes);
}

TEST_F(SavedGraph, WeightsLoadUnderEither) {
  const std::string weights = (folder_.path() / "weights.safetensors").string();
  {
    Session session(built_, {.device_memory = 64_MiB, .threads = 1, .seed = 99});
    session.initialize();
    save_variables(session, weights);
  }
  const TrainingState plain = train(built_, weights);
  (void)edit(built_);
  EXPECT_EQ(first_difference(plain, train(built_, weights)), "");
  EXPECT_NE(first_difference(plain, train(built_)), "") << "the weights matter";
}

}  // namespace
}  // namespace sectionflow
