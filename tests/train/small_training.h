#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "sectionflow.h"

namespace sectionflow::testing_support {

/// A small classifier with a batch norm and a dropout, whole or in two sections, whose learning rate is fed.
struct SmallModel {
  explicit SmallModel(bool in_sections) {
    if (in_sections) manager = std::make_unique<GraphSectionManager>(graph, Where::here());
    x = placeholder(graph, "x", {kDynamic, 6});
    label = placeholder(graph, "label", {kDynamic}, Dtype::i32);
    rate = placeholder(graph, "rate", {});
    Value hidden;
    {
      const auto scope = section("first");
      hidden = dropout(batch_norm(dense(x, {.features = 8}), {.relu = true}), {.rate = 0.25F});
    }
    {
      const auto scope = section("second");
      logits = dense(hidden, {.features = 3});
      loss = mean(softmax_cross_entropy(logits, label));
      accuracy = mean(cast(equal(argmax(logits), label), Dtype::f32));
    }
    if (manager != nullptr) {
      manager->add_training_ops(Adam{.learning_rate = rate}, loss);
      manager->prepare_training();
      training = manager->training_operations();
    } else {
      training = minimize(Adam{.learning_rate = rate}, loss);
      for (const Operation& update : graph.operations(kUpdateOperations)) training.push_back(update);
    }
  }

  std::optional<SectionScope> section(const std::string& name) {
    if (manager == nullptr) return std::nullopt;
    return manager->new_section(name);
  }
  TrainerOptions options() const {
    return {.loss = loss, .metrics = {{"accuracy", accuracy}}, .outputs = {{"logits", logits}}};
  }
  Trainer trainer(Session& session) {
    return manager != nullptr ? Trainer(session, *manager, options()) : Trainer(session, training, options());
  }

  Graph graph;
  std::unique_ptr<GraphSectionManager> manager;
  Value x, label, rate, logits, loss, accuracy;
  std::vector<Operation> training;
};

inline SessionOptions small_session(std::uint64_t seed = 3) {
  return {.device_memory = 4_MiB, .threads = 1, .seed = seed};
}

/// The batch-th batch of a pass: of 8 examples, the last of three of 5.
inline std::optional<Example> small_batch(std::int64_t pass, std::int64_t batch) {
  if (batch >= 3) return std::nullopt;
  const std::int64_t count = batch == 2 ? 5 : 8;
  std::mt19937 words(static_cast<std::mt19937::result_type>(pass * 100 + batch + 1));
  HostTensor x(Dtype::f32, {count, 6}), label(Dtype::i32, {count});
  for (float& number : x.values<float>()) number = static_cast<float>(words() % 2001) / 1000.0F - 1.0F;
  for (std::int32_t& number : label.values<std::int32_t>()) number = static_cast<std::int32_t>(words() % 3);
  Example example;
  example.emplace("x", std::move(x));
  example.emplace("label", std::move(label));
  return example;
}

/// The classifier with a session that is ready to train it. Trainers and sessions hold on to the model: it stays where
/// it is.
struct SmallTraining {
  explicit SmallTraining(bool in_sections, std::uint64_t seed = 3)
      : model(in_sections), session(model.graph, small_session(seed)), trainer(model.trainer(session)) {
    session.initialize();
  }
  SmallTraining(const SmallTraining&) = delete;
  SmallTraining& operator=(const SmallTraining&) = delete;

  SmallModel model;
  Session session;
  Trainer trainer;
  LearningRate rate{model.rate, constant_rate(0.01)};
};

/// Every variable of a session, by name.
inline std::map<std::string, HostTensor> variables_of(Session& session) {
  std::map<std::string, HostTensor> variables;
  for (Value variable : session.graph().values(kVariables)) variables[variable.name()] = session.read(variable);
  return variables;
}

/// Where two sets of variables first differ; empty when they are the same to the bit.
inline std::string difference_of(const std::map<std::string, HostTensor>& a,
                                 const std::map<std::string, HostTensor>& b) {
  if (a.size() != b.size()) return "other variables";
  for (const auto& [name, tensor] : a) {
    if (!b.contains(name)) return name + " is missing";
    if (!bitwise_equal(tensor, b.at(name))) return name + " " + first_difference(tensor, b.at(name));
  }
  return "";
}

/// A callback made of functions.
struct Hooks : Callback {
  std::function<void(const TrainerState&)> begin{}, step{}, epoch{}, end{}, evaluation_step{};
  std::function<void(const TrainerState&, Feeds&)> step_begin{};
  std::function<void(const TrainerState&, const Logs&)> evaluation{};

  void on_begin(const TrainerState& state) override { call(begin, state); }
  void on_step_begin(const TrainerState& state, Feeds& feeds) override {
    if (step_begin) step_begin(state, feeds);
  }
  void on_step(const TrainerState& state) override { call(step, state); }
  void on_evaluation_step(const TrainerState& state) override { call(evaluation_step, state); }
  void on_evaluation(const TrainerState& state, const Logs& results) override {
    if (evaluation) evaluation(state, results);
  }
  void on_epoch(const TrainerState& state) override { call(epoch, state); }
  void on_end(const TrainerState& state) override { call(end, state); }

 private:
  static void call(const std::function<void(const TrainerState&)>& hook, const TrainerState& state) {
    if (hook) hook(state);
  }
};

/// A trainer of the small model with a number that the test sets: a metric "score" that is fed.
struct Scored {
  Scored() : model(false), session(model.graph, small_session()) {
    score = placeholder(model.graph, "score", {});
    session.initialize();
    TrainerOptions options = model.options();
    options.training_metrics["score"] = score * 1.0F;
    trainer.emplace(session, model.training, std::move(options), Where::here());
    feeder.step_begin = [this](const TrainerState& state, Feeds& feeds) {
      feeds.emplace_back(score, scores.at(static_cast<std::size_t>(state.step) / 3 % scores.size()));
    };
  }
  Scored(const Scored&) = delete;
  Scored& operator=(const Scored&) = delete;
  /// Epochs of three steps with these scores.
  History fit(std::vector<Callback*> callbacks, std::int64_t epochs) {
    return fit(FitOptions{.epochs = epochs, .callbacks = std::move(callbacks)});
  }
  History fit(FitOptions options) {
    options.callbacks.insert(options.callbacks.begin(), {&rate, &feeder});
    return trainer->fit(source, options);
  }

  SmallModel model;
  Session session;
  Value score;
  std::optional<Trainer> trainer;
  std::vector<double> scores = {1};
  Hooks feeder;
  LearningRate rate{model.rate, constant_rate(0.01)};
  FunctionBatches source{small_batch};
};

}  // namespace sectionflow::testing_support
