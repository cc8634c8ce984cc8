#include "tests/support/training_case.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/random.h"
#include "graph/ops/basic.h"

namespace sectionflow::testing {

HostTensor random_images(Shape shape, std::uint64_t seed, std::int64_t step) {
  HostTensor tensor(Dtype::f32, std::move(shape));
  auto values = tensor.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto words = random_words({seed, 1, static_cast<std::uint32_t>(step)}, i / 4);
    values[i] = 2.0F * uniform_from_word(words[i % 4]) - 1.0F;
  }
  return tensor;
}

HostTensor random_classes(std::int64_t count, int num_classes, std::uint64_t seed, std::int64_t step) {
  HostTensor tensor(Dtype::i32, Shape{count});
  auto values = tensor.values<std::int32_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto words = random_words({seed, 2, static_cast<std::uint32_t>(step)}, i);
    values[i] = static_cast<std::int32_t>(words[0] % static_cast<std::uint32_t>(num_classes));
  }
  return tensor;
}

TrainingState train(const TrainingCase& training_case, How how, const TrainOptions& options) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet net = training_case.build(graph, manager);
  Session session(graph, {.device_memory = 256_MiB,
                          .threads = options.threads,
                          .seed = options.seed,
                          .poison = options.poison,
                          .check_schedules = true});
  session.initialize();
  TrainingState state;
  auto initial = read_variables(session);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    FeedStore store;
    const Feeds feeds = net.feeds(step, store);
    session.set_measuring(true);
    if (how == How::whole) {
      auto [loss] = session.run({net.loss}, feeds, {.targets = manager.training_operations()});
      state.losses.push_back(std::move(loss));
    } else if (how == How::sections) {
      auto [loss] = manager.run_full_cycle(session, {net.loss}, feeds);
      state.losses.push_back(std::move(loss));
    } else {
      auto [loss] = manager.run_forward(session, {net.loss}, feeds);
      state.losses.push_back(std::move(loss));
      manager.run_backward(session);
    }
    EXPECT_EQ(session.statistics().measured_peak_bytes, session.statistics().planned_peak_bytes)
        << training_case.name << ", step " << step;
    session.set_measuring(false);
    if (!net.evaluated.empty()) (void)session.run(net.evaluated, feeds);
  }
  EXPECT_EQ(session.completed_cycles(), static_cast<std::uint64_t>(options.steps)) << training_case.name;
  state.variables = read_variables(session);
  TrainingState before;
  before.variables = std::move(initial);
  TrainingState after{read_variables(session), {}};
  EXPECT_NE(first_difference(before, after), "") << training_case.name << ": training has changed nothing";
  return state;
}

void expect_exact(const TrainingCase& training_case, const TrainOptions& options) {
  const TrainingState whole = train(training_case, How::whole, options);
  EXPECT_EQ(first_difference(whole, train(training_case, How::sections, options)), "") << training_case.name;
  EXPECT_EQ(first_difference(whole, train(training_case, How::halves, options)), "")
      << training_case.name << ", halves";
}

}  // namespace sectionflow::testing
