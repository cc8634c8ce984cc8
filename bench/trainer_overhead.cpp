// What Trainer::fit, with the callbacks that a training usually has, takes beside the loop by hand; and what looking at
// every result takes.

#include <chrono>
#include <cstdio>
#include <sstream>
#include <vector>

#include "bench/median.h"
#include "bench/program.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

struct Arguments {
  std::int64_t batch = 100, channels = 0, features = 64;
  int rounds = 11, steps = 200, threads = 1;
};

/// A model of one kind, trained step after step.
struct World {
  explicit World(const Arguments& arguments, std::size_t lent_memory = 0)
      : x(placeholder(graph, "image", {kDynamic, 28, 28, 1})),
        label(placeholder(graph, "label", {kDynamic}, Dtype::i32)),
        rate(placeholder(graph, "rate", {})),
        loss(mean(softmax_cross_entropy(
            dense(relu(dense(flatten(convolved(arguments)), {.features = arguments.features})), {.features = 10}),
            label))),
        training(minimize(Adam{.learning_rate = rate}, loss)),
        session(graph, {.device_memory = 256_MiB, .lent_memory = lent_memory, .threads = arguments.threads}) {
    session.initialize();
  }

  Value convolved(const Arguments& arguments) {
    if (arguments.channels == 0) return x;
    const Conv2dOptions options{.features = arguments.channels, .stride = 2};
    return relu(conv2d(relu(conv2d(x, options)), options));
  }

  Graph graph;
  Value x, label, rate, loss;
  std::vector<Operation> training;
  Session session;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int run(const Arguments& arguments) {
  const LabeledImages images = synthetic_mnist({.train_size = 1000, .test_size = 10}).train;
  const BatchLoaderOptions order{.batch = arguments.batch, .prefetch = 0};
  World by_hand(arguments), by_fit(arguments), by_lending_fit(arguments, 1_GiB);
  ImageBatches hand_batches(images, order), fit_batches(images, order), lending_batches(images, order);
  Trainer trainer(by_fit.session, by_fit.training, {.loss = by_fit.loss});
  Trainer lending_trainer(by_lending_fit.session, by_lending_fit.training, {.loss = by_lending_fit.loss});
  LearningRate rate(by_fit.rate, warm_up(100, cosine_rate(1e-3, 100000)));
  LearningRate lending_rate(by_lending_fit.rate, warm_up(100, cosine_rate(1e-3, 100000)));
  std::ostringstream nowhere;
  Progress progress({.stream = &nowhere});
  OutlierGuard guard;
  FiniteCheck check;
  const auto hand = [&] {
    for (int step = 0; step < arguments.steps;) {
      const auto batch = hand_batches.next();
      if (!batch) continue;
      const auto [loss] = by_hand.session.run(
          {by_hand.loss}, {{by_hand.x, batch->at("image")}, {by_hand.label, batch->at("label")}, {by_hand.rate, 1e-3}},
          {.targets = by_hand.training});
      if (!(loss.item<float>() < 1e6F)) std::printf("the loss is %f\n", loss.item<float>());
      ++step;
    }
  };
  const auto fit = [&](std::vector<Callback*> callbacks) {
    trainer.fit(fit_batches, {.steps = arguments.steps, .callbacks = std::move(callbacks)});
  };
  std::vector<double> hands, fits, bare, lending, checked;
  for (int round = 0; round <= arguments.rounds; ++round) {
    const auto time = [&](std::vector<double>& samples, const auto& call) {
      const auto begin = std::chrono::steady_clock::now();
      call();
      if (round > 0) samples.push_back(seconds_since(begin) / arguments.steps * 1e6);
    };
    time(hands, hand);
    time(bare, [&] { fit({&rate}); });
    time(lending,
         [&] { lending_trainer.fit(lending_batches, {.steps = arguments.steps, .callbacks = {&lending_rate}}); });
    time(fits, [&] { fit({&rate, &guard, &progress}); });
    time(checked, [&] { fit({&rate, &check}); });
  }
  // Within a round, so that what else the machine does for a while is in both.
  const auto print = [&](const char* what, const std::vector<double>& samples, const std::vector<double>& beside) {
    std::vector<double> shares;
    for (std::size_t i = 0; i < samples.size(); ++i) shares.push_back(100 * (samples[i] / beside[i] - 1));
    std::printf("%-35s %9.1f us a step, %+.2f %%\n", what, median(samples), median(shares));
  };
  print("loop by hand", hands, hands);
  print("fit, learning rate", bare, hands);
  print("fit, learning rate, lent memory", lending, hands);
  print("fit, learning rate, guard, progress", fits, hands);
  print("fit, learning rate, finite check", checked, hands);
  print("  beside the fit without it", checked, bare);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("What a trainer takes beside the loop by hand: medians of rounds that take turns.");
  app.add_option("--batch", arguments.batch, "examples in a batch")->capture_default_str();
  app.add_option("--channels", arguments.channels, "of two convolutions before it; 0: none")->capture_default_str();
  app.add_option("--features", arguments.features, "of the hidden layer: how long a step takes")->capture_default_str();
  app.add_option("--rounds", arguments.rounds, "timed rounds of each")->capture_default_str();
  app.add_option("--steps", arguments.steps, "steps in a round")->capture_default_str();
  app.add_option("--threads", arguments.threads, "compute threads; 0: every core")->capture_default_str();
  return sectionflow::run_program(app, argc, argv, [&] { return run(arguments); });
}
