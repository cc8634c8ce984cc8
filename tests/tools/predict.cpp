// `sectionflow predict`: what a frozen model takes pictures for.

#include <filesystem>

#include "data/png_writer.h"
#include "data/safetensors.h"
#include "sectionflow.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// A model of three classes, whose logits are twice the mean of red, of green and of blue; pictures of one colour each.
struct Predict : testing::Test {
  Predict() {
    Graph graph;
    const Value images = placeholder(graph, "images", {kDynamic, 4, 4, 3});
    const Value logits = reduce_mean(images, {{1, 2}}) * variable("twice", fill(graph, {3}, 2.0));
    Session session(graph);
    session.initialize();
    save_inference_graph(freeze(session, {logits}), model);
    for (int channel = 0; channel < 3; ++channel) {
      HostTensor picture(Dtype::u8, {9, 7, 3});
      for (std::size_t i = 0; i < picture.num_bytes(); ++i) {
        picture.values<std::uint8_t>()[i] = i % 3 == static_cast<std::size_t>(channel) ? 255 : 0;
      }
      write_png(folder.path() / (std::to_string(channel) + ".png"), picture);
    }
  }
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }

  TemporaryFolder folder;
  std::string model = path("model.safetensors");
};

TEST_F(Predict, NamesTheLikeliestClasses) {
  folder.file("names", "red\ngreen\r\nblue\n");
  const auto json = json_of_tool("predict " + model + " " + path("1.png") + " " + path("2.png") +
                                 " --top 2 --threads 1 --labels " + path("names"));
  ASSERT_EQ(json.at("images").size(), 2U);
  const auto green = json.at("images").at(0).at("classes");
  ASSERT_EQ(green.size(), 2U);
  EXPECT_EQ(green.at(0).at("name"), "green");
  EXPECT_EQ(green.at(0).at("label"), 1);
  EXPECT_NEAR(green.at(0).at("share").get<double>(), 0.78699, 1e-4);  // e^2 / (e^2 + 2)
  EXPECT_EQ(green.at(1).at("label"), 0);
  EXPECT_EQ(json.at("images").at(1).at("classes").at(0).at("name"), "blue");
  folder.file("labels.txt", "2:sea\n");
  const Outcome outcome = run_tool("predict " + model + " " + path("2.png") + " --labels " + path("labels.txt"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("78.70 %  2 sea"), HasSubstr("10.65 %  0\n")));
}

TEST_F(Predict, RefusesWhatIsNoModelOfPictures) {
  expect_refused("predict " + path("0.png") + " " + path("0.png"), HasSubstr("0.png"));
  expect_refused("predict " + model + " " + path("absent.png"), HasSubstr("absent.png"));
  expect_refused("predict " + model, HasSubstr("images"));
  expect_refused("predict " + folder.path().string() + " " + path("0.png"), HasSubstr("is a folder; wanted a file"));
  write_safetensors(path("variables"), {}, {});
  expect_refused("predict " + path("variables") + " " + path("0.png"),
                 HasSubstr("sectionflow freeze makes such files"));
  expect_refused("predict " + model + " " + path("0.png") + " --labels " + path("0.png"), HasSubstr("is no text"));
  expect_refused("predict " + model + " " + path("0.png") + " --device-memory 64B", HasSubstr("SF-E101"));
  Graph graph;
  const Value x = placeholder(graph, "x", {2}), y = placeholder(graph, "y", {2});
  save_inference_graph(transform_graph(graph, {x + y}, ""), path("two"));
  expect_refused("predict " + path("two") + " " + path("0.png"), HasSubstr("wants to be fed 'x' and 'y'"));
  save_inference_graph(transform_graph(graph, {relu(x)}, "strip_unused_nodes"), path("flat"));
  expect_refused("predict " + path("flat") + " " + path("0.png"), HasSubstr("wanted pictures f32[?,H,W,C]"));
}

TEST_F(Predict, RefusesNamesOfMoreClassesThanTheModelHas) {
  folder.file("four", "red\ngreen\nblue\nsea\n");
  expect_refused("predict " + model + " " + path("0.png") + " --labels " + path("four"),
                 HasSubstr("names class 3, and the model has 3 classes"));
  folder.file("three", "red\ngreen\nblue\n\n");
  EXPECT_EQ(run_tool("predict " + model + " " + path("0.png") + " --labels " + path("three")).status, 0);
}

TEST_F(Predict, WritesOverNothingThatItReads) {
  folder.file("names", "red\n");
  const std::string call = "predict " + model + " " + path("0.png") + " --labels " + path("names") + " --json ";
  for (const char* read : {"model.safetensors", "0.png", "names"}) expect_refused(call + path(read), HasSubstr(read));
}

TEST_F(Predict, BringsNoPictureToASizeThatTheBudgetHasNoRoomFor) {
  Graph graph;
  const Value images = placeholder(graph, "images", {kDynamic, 200000, 200000, 3});
  save_inference_graph(transform_graph(graph, {reduce_mean(images, {{1, 2}})}, ""), path("large"));
  expect_refused("predict " + path("large") + " " + path("0.png") + " --device-memory 1MiB", HasSubstr("SF-E101"));
}

TEST_F(Predict, RefusesLogitsThatNameNoClass) {
  Graph graph;
  const Value images = placeholder(graph, "images", {kDynamic, 4, 4, 3});
  save_inference_graph(transform_graph(graph, {reshape(images, {-1, 3})}, ""), path("rows"));
  expect_refused("predict " + path("rows") + " " + path("0.png"), HasSubstr("f32[16,3]"));
  save_inference_graph(transform_graph(graph, {sqrt(reduce_mean(images, {{1, 2}}) - 0.5F)}, "strip_unused_nodes"),
                       path("nan"));
  expect_refused("predict " + path("nan") + " " + path("0.png"), HasSubstr("not a number"));
}

}  // namespace
}  // namespace sectionflow::tools
