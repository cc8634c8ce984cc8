#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "autodiff/optimizers.h"
#include "compare/compare_strategies.h"
#include "runtime/engine.h"
#include "sectionflow.h"

namespace sectionflow::testing_support {

/// A few dense layers whose variables take far more than what passes through them, trained as a whole graph.
struct HomeCase {
  explicit HomeCase(const Optimizer& optimizer, SessionOptions options) {
    Value h = x;
    for (int layer = 0; layer < 3; ++layer) h = tanh(dense(h, {.features = 64}));
    logits = dense(h, {.features = 8});
    loss = mean(softmax_cross_entropy(logits, labels));
    training = minimize(optimizer, loss);
    options.check_schedules = true;
    options.threads = 1;
    session = std::make_unique<Session>(graph, options);
  }

  Feeds feeds(std::int64_t step) {
    std::mt19937 words(static_cast<std::mt19937::result_type>(step + 1));
    images = HostTensor(Dtype::f32, {4, 32});
    classes = HostTensor(Dtype::i32, {4});
    for (float& number : images.values<float>()) number = static_cast<float>(words() % 2001) / 1000.0F - 1.0F;
    for (std::int32_t& number : classes.values<std::int32_t>()) number = static_cast<std::int32_t>(words() % 8);
    return {{x, images}, {labels, classes}};
  }
  HostTensor step(std::int64_t number) {
    return std::move(session->run({loss}, feeds(number), {.targets = training})[0]);
  }
  ProgramReport plan() { return session->plan({loss}, types_of(feeds(0)), {.targets = training}); }
  TrainingState state() { return {read_variables(*session), {}}; }
  std::size_t bytes_on_disk() { return engine(*session).layout().disk_end_bytes; }

  Graph graph;
  Value x = placeholder(graph, "x", {kDynamic, 32}), labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  Value logits, loss;
  std::vector<Operation> training;
  std::unique_ptr<Session> session;
  HostTensor images, classes;
};

inline constexpr std::size_t kMuch = std::size_t{64} << 20;

/// All variables off the device, in as much memory as they may want.
inline SessionOptions much_memory(bool copy_threads = false) {
  return {.device_memory = kMuch,
          .host_memory = kMuch,
          .disk = kMuch,
          .swap_variables = true,
          .copy_threads = copy_threads};
}

/// With the least host memory in which a training step and what comes before it run.
inline SessionOptions least_host_memory(const Optimizer& optimizer, SessionOptions options) {
  options.host_memory = 1;
  HomeCase probe(optimizer, options);
  options.host_memory = probe.plan().host_peak_bytes;
  try {
    probe.session->initialize();
  } catch (const BudgetError& error) {
    options.host_memory = std::max(options.host_memory, error.minimum_bytes);
  }
  return options;
}

}  // namespace sectionflow::testing_support
