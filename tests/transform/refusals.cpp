// What functions of inference graphs refuse before they do anything.

#include <gmock/gmock.h>

#include <string>

#include "graph/nodes/update.h"
#include "sectionflow.h"
#include "tests/support/temporary_folder.h"
#include "transform/quantize_nodes.h"

namespace sectionflow {
namespace {

using testing::HasSubstr;

template <class Call>
std::string refusal(const Call& call) {
  return whole_error_text<ArgumentError>(call);
}

TEST(InferenceGraphs, ThatAreNoneAreRefused) {
  const TemporaryFolder folder;
  const InferenceGraph none;
  Example example;
  example.emplace("x", HostTensor(Dtype::f32, {1, 2}));
  const Dataset batches = Dataset::from(std::move(example)).batch({.size = 1});
  EXPECT_THAT(refusal([&] { transform_graph(none, "fuse"); }), HasSubstr("the graph is none"));
  EXPECT_THAT(refusal([&] { save_inference_graph(none, folder.path() / "model"); }), HasSubstr("the graph is none"));
  EXPECT_THAT(refusal([&] { calibrate(none, batches); }), HasSubstr("the graph is none"));
  EXPECT_THAT(refusal([&] { quantize_report(none); }), HasSubstr("the graph is none"));
}

TEST(Freeze, RefusesFeedsThatDoNotFit) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3}), y = relu(x);
  Session session(graph);
  session.initialize();
  const HostTensor three(Dtype::f32, {3}), four(Dtype::f32, {4});
  EXPECT_THAT(refusal([&] {
                freeze(session, {y}, {.feeds = {{x, three}, {x, three}}});
              }),
              HasSubstr("'x' is fed twice"));
  EXPECT_THAT(whole_error_text<ShapeError>([&] {
                freeze(session, {y}, {.feeds = {{x, four}}});
              }),
              HasSubstr("the feed of 'x' is f32[4]; wanted f32[3]"));
}

TEST(InferenceGraphs, ExchangeNothingWithOtherRanks) {
  Graph graph;
  const Value y = all_reduced(placeholder(graph, "x", {3}), 2);
  EXPECT_THAT(refusal([&] { transform_graph(graph, {y}, "fuse"); }), HasSubstr("exchanges with other ranks"));
}

TEST(ValueRanges, OfIntegersAreRefused) {
  Graph graph;
  const Value ids = placeholder(graph, "ids", {3}, Dtype::i32);
  InferenceGraph made = transform_graph(graph, {cast(ids, Dtype::f32)}, "");
  made.ranges.set("ids", {0, 1});
  EXPECT_THAT(refusal([&] { transform_graph(made, "fuse"); }), HasSubstr("wanted a tensor of f32 or bf16"));
}

TEST(TransformText, IsRefusedAsAWholeBeforeAnythingIsDone) {
  Graph graph;
  const Value y = relu(placeholder(graph, "x", {2}));
  const auto of = [&](const std::string& text) { return refusal([&] { transform_graph(graph, {y}, text); }); };
  std::string many;
  for (int i = 0; i < 257; ++i) many += "fuse ";
  EXPECT_THAT(of(many), HasSubstr("there are more than 256 transforms"));
  EXPECT_THAT(of("fold_constants(max_bytes=)"), HasSubstr("wanted a value"));
  EXPECT_THAT(of("pack_weights(batch=0)"), HasSubstr("batch is 0; wanted 1 or more"));
  // Without one that does not fit the first would be refused, since it is given a variable.
  const Value w = variable("w", fill(graph, {2}, 1.0));
  EXPECT_THAT(refusal([&] { transform_graph(graph, {w}, "fuse pack_weights(threads=1025)"); }),
              HasSubstr("threads is 1025; wanted at most 1024"));
}

}  // namespace
}  // namespace sectionflow
