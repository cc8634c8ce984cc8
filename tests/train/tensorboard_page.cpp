// The code of docs/tensorboard.md, which tests/house compares with the page.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "sectionflow.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

void train(GraphSectionManager& manager, Session& session, Value loss, Value images, Value labels, BatchLoader& loader,
           const std::string& folder) {
  EventWriter events(folder);
  events.graph(session.graph());
  for (std::int64_t step = 0; const auto batch = loader.next(); ++step) {
    auto [value] = manager.run_full_cycle(session, {loss}, {{images, batch->images}, {labels, batch->labels}});
    events.scalar("loss", value.item<float>(), step);
    if (step % 100 != 0) continue;
    events.gradients(manager, step);
    events.weights(session, step);
  }
}

void draw_measured(Session& session, EventWriter& events, const std::function<void()>& train_a_step) {
  Trace trace;
  session.set_trace(&trace);
  train_a_step();
  session.set_trace(nullptr);
  events.run_metadata("step 100", trace, session.graph(), 100);
  trace.write("cycle.json", session.graph());             // chrome://tracing, ui.perfetto.dev
  write_memory_snapshot("cycle.pickle", session, trace);  // pytorch.org/memory_viz
}

void trace_a_long_run(Session& session, const std::function<bool()>& train_a_step) {
  TraceFiles files("timeline", session.graph(), {.keep = 4});
  Trace trace;
  session.set_trace(&trace);
  while (train_a_step()) {
    files.add(trace);
    trace.clear();
  }
  session.set_trace(nullptr);
}

void draw_planned(GraphSectionManager& manager, Session& session, Value loss, const FeedTypes& types) {
  manager.plan(session, {loss}, types);
  const Trace trace = planned_trace(session);
  trace.write("plan.json", session.graph());
  write_memory_snapshot("plan.pickle", session, trace);
  write_sections_dot("sections.dot", manager, types);
}

std::size_t count_losses(const std::string& path) {
  std::size_t count = 0;
  for (const LoggedEvent& event : read_events(path)) {
    for (const LoggedScalar& scalar : event.scalars) count += scalar.tag == "loss" ? 1 : 0;
  }
  return count;
}

/// Files without a folder go to the test's.
class InFolder {
 public:
  explicit InFolder(const std::filesystem::path& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~InFolder() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

TEST(TensorBoardPage, ItsCodeDrawsEveryPicture) {
  const TemporaryFolder folder;
  const InFolder inside(folder.path());
  Graph graph;
  GraphSectionManager manager(graph);
  const Value images = placeholder(graph, "images", {kDynamic, 28, 28, 1});
  const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  Value x, loss;
  {
    auto section = manager.new_section();
    x = relu(conv2d(images, {.features = 4, .stride = 4}));
  }
  {
    auto section = manager.new_section("head");
    loss = mean(softmax_cross_entropy(dense(reduce_mean(x, {.axes = {1, 2}}), {.features = 10}), labels));
  }
  manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss, {.summaries = true});
  manager.prepare_training();
  Session session(graph, {.device_memory = 4_MiB, .threads = 1});
  session.initialize();

  draw_planned(manager, session, loss, {{images, {10, 28, 28, 1}}, {labels, Shape{10}}});
  const TrainTest data = synthetic_mnist({.train_size = 60, .test_size = 10});
  BatchLoader loader(data.train, {.batch = 10, .epochs = 1});
  train(manager, session, loss, images, labels, loader, "runs/first");
  ASSERT_FALSE(std::filesystem::is_empty("runs/first"));
  const std::string path = std::filesystem::directory_iterator("runs/first")->path();
  EXPECT_EQ(count_losses(path), 6U);
  EventWriter events("runs/second");
  BatchLoader again(data.train, {.batch = 10});
  draw_measured(session, events, [&] {
    const auto batch = again.next();
    manager.run_full_cycle(session, {loss}, {{images, batch->images}, {labels, batch->labels}});
  });
  int left = 2;
  trace_a_long_run(session, [&] {
    if (left-- == 0) return false;
    const auto batch = again.next();
    manager.run_full_cycle(session, {loss}, {{images, batch->images}, {labels, batch->labels}});
    return true;
  });
  for (const char* file :
       {"timeline/trace-00000.json", "plan.json", "plan.pickle", "sections.dot", "cycle.json", "cycle.pickle"}) {
    EXPECT_GT(std::filesystem::file_size(file), 1000U) << file;
  }
  EXPECT_EQ(read_events(events.path()).size(), 2U);
  int num_steps = 0;
  trace_a_long_run(session, [&] {
    const auto batch = again.next();
    manager.run_full_cycle(session, {loss}, {{images, batch->images}, {labels, batch->labels}});
    return ++num_steps < 3;
  });
  EXPECT_FALSE(std::filesystem::is_empty("timeline"));
}

}  // namespace
}  // namespace sectionflow
