#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/zoo_arguments.h"
#include "sectionflow.h"

namespace sectionflow {

/// What a model in training is made of.
struct StepArguments {
  ZooArguments zoo;
  std::int64_t batch = 250;
  std::int64_t batches = 1;
  std::string cut = "whole";
  DeviceArguments device{};
  std::string device_memory;
  int threads = 0;
  std::uint64_t seed = 0;
};

/// What communicating took of the steps in a trace.
struct CommunicationTimes {
  double all_ms = 0;
  double exposed_ms = 0;  ///< in which nothing was computed meanwhile
};
CommunicationTimes communication_times(std::span<const Trace::Event> events);

/// One model in training, with the batches that it goes round: those of one rank, where several train together.
class StepTraining {
 public:
  using Json = nlohmann::ordered_json;

  explicit StepTraining(const StepArguments& arguments, const std::shared_ptr<Communicator>& communicator = nullptr);

  /// Milliseconds and loss of a step.
  Json step();
  /// A step with the time in kernels and the time between them, and with that of communications.
  Json traced_step(const std::string& timeline = "");
  Json peak() const;
  /// A step that finds out which bytes of the arena it writes.
  Json measured_peak();
  /// What this rank comes to in so many steps, each begun by all ranks together. `rounds`: steps that are traced, and
  /// as many that are not, in turn.
  Json measured(std::int64_t rounds);

  Json save_variables_to(const std::string& path);
  Json save_choices_to(const std::string& path) const;
  /// Of another rank than the first ".1" and so on stands behind the path.
  Json save_batches_to(const std::string& path) const;
  /// Measures every kernel of the step. Of a training alone.
  Json save_profile_to(const std::string& path);

  int threads() const { return session_.threads(); }
  std::string device_name() const { return session_.device_name(); }

 private:
  float train_on(const Batch& batch);
  std::string variables_hash();

  std::shared_ptr<Communicator> communicator_;
  bool whole_graph_;
  Graph graph_;
  GraphSectionManager manager_;
  Session session_;
  TrainableModel model_;
  std::vector<Batch> batches_;
  ProgramReport plan_;
  double compile_ms_ = 0;
  std::size_t num_steps_ = 0;
};

}  // namespace sectionflow
