// `sectionflow plan --graph`: what of a graph's placeholders is told, and what decides itself.

#include <optional>

#include "autodiff/optimizers.h"
#include "graph/graph_file.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/control.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "sections/graph_section_manager.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A layer, or eight times as wide ones, as a flag says; its gradients are gathered over so many micro-batches.
std::string branched_graph(const TemporaryFolder& folder, int micro_batches) {
  Graph graph;
  GraphSectionManager manager(graph);
  std::optional section(manager.new_section());
  const Value data = placeholder(graph, "data", {kDynamic, 64}),
              is_deep = placeholder(graph, "is_deep", {}, Dtype::boolean);
  const auto layers = [&](std::int64_t width) {
    return dense(relu(dense(data, {.features = width})), {.features = 8});
  };
  const Value y = cond(
      is_deep, [&] { return layers(512); }, [&] { return layers(64); });
  const Value loss = mean(y * y);
  section.reset();
  manager.add_training_ops(Sgd{.learning_rate = 0.1F}, loss, {.micro_batches = micro_batches});
  const std::string file = (folder.path() / ("graph" + std::to_string(micro_batches) + ".json")).string();
  save_graph(graph, file);
  return "plan --graph " + file + " --batch 32 --threads 1 ";
}

std::int64_t transient_bytes(const std::string& arguments) {
  return json_of_tool(arguments).at("plan").at("transient_bytes");
}

TEST(PlanGraph, AFlagSaysWhichBranchIsPlanned) {
  const TemporaryFolder folder;
  const std::string plan = branched_graph(folder, 1);
  EXPECT_EQ(transient_bytes(plan), transient_bytes(plan + "--flag is_deep=true"));
  EXPECT_LT(transient_bytes(plan + "--flag is_deep=false"), transient_bytes(plan + "--flag is_deep=true"));
  expect_refused(plan + "--flag is_deep", HasSubstr("wanted NAME=true or NAME=false"));
  expect_refused(plan + "--flag is_deep=1", HasSubstr("wanted NAME=true or NAME=false"));
  expect_refused(plan + "--flag is_dep=true", HasSubstr("did you mean 'is_deep'?"));
  expect_refused(plan + "--flag data=true", HasSubstr("'data' is no boolean placeholder"));
  expect_refused(plan + "--flag is_deep=true --flag is_deep=false", HasSubstr("'is_deep' is given twice"));
  expect_refused(plan + "--shape data=32x64 --shape data=8x64", HasSubstr("'data' is given twice"));
  EXPECT_EQ(transient_bytes(plan + "--shape is_deep= --flag is_deep=false"),
            transient_bytes(plan + "--flag is_deep=false"));
  expect_refused("plan --flag is_deep=true", HasSubstr("--flag is for graphs of files"));
}

TEST(PlanGraph, OfMicroBatchesTheFullestIsPlanned) {
  const TemporaryFolder folder;
  const std::string plan = branched_graph(folder, 4);
  const auto json = json_of_tool(plan);
  EXPECT_TRUE(json.at("fits").get<bool>());
  EXPECT_GE(transient_bytes(plan), transient_bytes(branched_graph(folder, 1)));
  expect_refused(plan + "--shape last_micro_batch=3",
                 AllOf(HasSubstr("--shape"), HasSubstr("the last of its update"), HasSubstr("leave it out")));
  expect_refused(plan + "--flag last_micro_batch=true",
                 AllOf(HasSubstr("--flag"), HasSubstr("the last of its update"), HasSubstr("leave it out")));
}

}  // namespace
}  // namespace sectionflow::tools
