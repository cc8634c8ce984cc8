#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "data/batch_memory.h"
#include "runtime/engine.h"
#include "runtime/lent_memory.h"
#include "runtime/queue_program.h"
#include "sectionflow.h"

// Trainings whose batches lie in memory that the session lends, on a device with queues.
namespace sectionflow::testing_support {

/// A model of two sections that both read the images, so that a cycle copies them in more than once.
struct LentTraining {
  explicit LentTraining(bool in_sections, SessionOptions options) {
    if (in_sections) manager.emplace(graph);
    const auto section = [&] { return in_sections ? std::optional(manager->new_section()) : std::nullopt; };
    x = placeholder(graph, "x", {kDynamic, 24});
    const Value label = placeholder(graph, "label", {kDynamic}, Dtype::i32);
    Value hidden, loss;
    {
      const auto scope = section();
      hidden = relu(dense(x, {.features = 24}));
    }
    {
      const auto scope = section();
      hidden = dense(hidden + x, {.features = 4});
      loss = mean(softmax_cross_entropy(hidden, label));
    }
    std::vector<Operation> operations;
    if (in_sections) {
      manager->add_training_ops(Adam{.learning_rate = 1e-2F}, loss);
      manager->prepare_training();
    } else {
      operations = minimize(Adam{.learning_rate = 1e-2F}, loss);
    }
    if (!options.device_memory.is_limited()) options.device_memory = 2_MiB;
    options.seed = 3;
    session.emplace(graph, options);
    session->initialize();
    const TrainerOptions values{.loss = loss};
    if (in_sections) {
      trainer.emplace(*session, *manager, values);
    } else {
      trainer.emplace(*session, operations, values);
    }
  }
  LentTraining(const LentTraining&) = delete;
  LentTraining& operator=(const LentTraining&) = delete;

  /// Every variable after `steps` steps of batches of 8, made ahead by a thread; `look` is called behind each.
  std::vector<HostTensor> trained(std::int64_t steps, std::function<void()> look = {}) {
    DatasetBatches source(batches());
    return trained_on(source, {.steps = steps}, std::move(look));
  }
  std::vector<HostTensor> trained_on(BatchSource& source, FitOptions options, std::function<void()> look = {}) {
    struct Look : Callback {
      void on_step(const TrainerState&) override {
        if (call) call();
      }
      std::function<void()> call;
    } callback;
    callback.call = std::move(look);
    options.callbacks.push_back(&callback);
    trainer->fit(source, options);
    return variables();
  }
  std::vector<HostTensor> variables() {
    std::vector<HostTensor> variables;
    for (Value variable : graph.values(kVariables)) variables.push_back(session->read(variable));
    return variables;
  }
  static Dataset batches() {
    std::mt19937 words(5);
    HostTensor x(Dtype::f32, {48, 24}), label(Dtype::i32, {48});
    for (float& number : x.values<float>()) number = static_cast<float>(words() % 2001) / 1000.0F - 1.0F;
    for (std::int32_t& number : label.values<std::int32_t>()) number = static_cast<std::int32_t>(words() % 4);
    Example tensors;
    tensors.emplace("x", std::move(x));
    tensors.emplace("label", std::move(label));
    return Dataset::from(std::move(tensors)).shuffle({.seed = 1}).batch({.size = 8}).prefetch();
  }
  std::shared_ptr<LentMemory> memory() { return engine(*session).lent_memory(); }
  /// How many feeds of the last cycle went to the device from where they lay; there are two.
  int num_direct() {
    int count = 0;
    for (const std::byte* source : engine(*session).latest_program()->queue->feed_sources()) {
      if (source != nullptr && memory() != nullptr && memory()->is_pinned(source, 1)) ++count;
    }
    return count;
  }
  bool is_recorded() {
    const Executable& program = *engine(*session).latest_program();
    return program.queue->recording(0, static_cast<StepIndex>(program.schedule.steps.size())) != nullptr;
  }

  Graph graph;
  std::optional<GraphSectionManager> manager;
  Value x;
  std::optional<Session> session;
  std::optional<Trainer> trainer;
};

/// Batches of which the next one is always made already, unless it is to be told otherwise: by its number, from 0, a
/// batch that is `late`, that is `short` of examples, or whose making `throws`, once.
class MadeBatches final : public BatchSource {
 public:
  struct Oddities {
    std::int64_t late = -1, is_short = -1, throws = -1;
  };
  MadeBatches() : MadeBatches(Oddities()) {}
  explicit MadeBatches(Oddities oddities) : oddities_(oddities) {
    DatasetBatches source(LentTraining::batches());
    for (int i = 0; i < 6; ++i) batches_.push_back(*source.next());
  }

  std::optional<Example> next() override {
    if (number_ == oddities_.throws) {
      oddities_.throws = -1;
      throw std::runtime_error("the disk is gone");
    }
    if (!made_) make();
    ++number_;
    std::optional<Example> batch(*std::exchange(made_, std::nullopt));
    if (number_ != oddities_.late && number_ != oddities_.throws) make();
    return batch;
  }
  void look_ahead(const LookAtTensor& look) const override {
    if (!made_) return;
    for (const auto& [name, tensor] : *made_) look(name, tensor);
  }
  std::string position() const override { return std::to_string(number_); }
  void restore(const std::string& position) override {
    number_ = position.empty() ? 0 : std::stoll(position);
    made_.reset();
  }
  void lend(std::shared_ptr<BatchMemory> memory) override { memory_ = std::move(memory); }

 private:
  void make() {
    const Example& from = batches_[static_cast<std::size_t>(number_) % batches_.size()];
    made_.emplace();
    for (const auto& [name, tensor] : from) {
      TensorType type = tensor.type();
      if (number_ == oddities_.is_short) type.shape = name == "x" ? Shape{5, 24} : Shape{5};
      HostTensor copy = unfilled_tensor(type, memory_.get());
      std::memcpy(copy.bytes(), tensor.bytes(), copy.num_bytes());
      made_->emplace(name, std::move(copy));
    }
  }

  Oddities oddities_;
  std::vector<Example> batches_;
  std::shared_ptr<BatchMemory> memory_;
  std::optional<Example> made_;
  std::int64_t number_ = 0;
};

inline void expect_same(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(first_difference(a[i], b[i]), "");
}

}  // namespace sectionflow::testing_support
