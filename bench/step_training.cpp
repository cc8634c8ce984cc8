#include "bench/step_training.h"

#include <algorithm>
#include <chrono>

#include "bench/median.h"
#include "data/safetensors.h"
#include "data/tensor_hashes.h"
#include "graph/op_def.h"

namespace sectionflow {
namespace {

using Json = StepTraining::Json;

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

int ranks_of(const std::shared_ptr<Communicator>& communicator) {
  return communicator != nullptr ? communicator->size() : 1;
}

}  // namespace

CommunicationTimes communication_times(std::span<const Trace::Event> events) {
  struct Stretch {
    double begin, end;
  };
  std::vector<Stretch> computing;
  for (const Trace::Event& event : events) {
    if (event.lane == Lane::compute) computing.push_back({event.start_us, event.start_us + event.duration_us});
  }
  std::sort(computing.begin(), computing.end(), [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  CommunicationTimes times;
  for (const Trace::Event& event : events) {
    if (event.lane != Lane::communicate) continue;
    const double end = event.start_us + event.duration_us;
    double hidden_us = 0;
    for (const Stretch& stretch : computing) {
      hidden_us += std::max(0.0, std::min(end, stretch.end) - std::max(event.start_us, stretch.begin));
    }
    times.all_ms += event.duration_us / 1000;
    times.exposed_ms += std::max(0.0, event.duration_us - hidden_us) / 1000;
  }
  return times;
}

StepTraining::StepTraining(const StepArguments& arguments, const std::shared_ptr<Communicator>& communicator)
    : communicator_(communicator),
      whole_graph_(arguments.cut == "whole"),
      manager_(graph_),
      session_(graph_, {.device = device_of(arguments.device),
                        .device_memory = arguments.device_memory.empty() ? 0 : parse_bytes(arguments.device_memory),
                        .threads = arguments.threads,
                        .seed = arguments.seed,
                        .communicator = communicator}) {
  ZooArguments zoo = arguments.zoo;
  zoo.options.ranks = ranks_of(communicator);
  const ZooModel model = model_of(zoo, whole_graph_ ? Cut{} : cut_named(arguments.cut));
  SF_CHECK(arguments.batches >= 1, ArgumentError, "--batches ", arguments.batches, "; wanted >= 1");
  const std::int64_t ranks = zoo.options.ranks, rank = communicator != nullptr ? communicator->rank() : 0;
  for (std::int64_t i = 0; i < arguments.batches; ++i) {
    batches_.push_back(model.batch({.batch = arguments.batch, .seed = arguments.seed, .step = i * ranks + rank}));
  }
  model_ = model.build(graph_, manager_);
  const FeedTypes types = types_of(model_.feeds(batches_.front()));
  const auto start = std::chrono::steady_clock::now();
  plan_ = whole_graph_ ? session_.plan({model_.loss}, types, {.targets = manager_.training_operations()})
                       : manager_.plan(session_, {model_.loss}, types);
  compile_ms_ = milliseconds_since(start);
  session_.initialize();
}

Json StepTraining::step() {
  const Batch& batch = batches_[num_steps_++ % batches_.size()];
  const auto start = std::chrono::steady_clock::now();
  const float loss = train_on(batch);
  const double took = milliseconds_since(start);
  return {{"ms", took}, {"loss", loss}};
}

Json StepTraining::traced_step(const std::string& timeline) {
  Trace trace;
  session_.set_trace(&trace);
  Json answer = step();
  session_.set_trace(nullptr);
  if (!timeline.empty()) trace.write(timeline, graph_);
  double kernel_ms = 0;
  std::map<std::string, double> by_operation;
  for (const Trace::Event& event : trace.events()) {
    if (event.lane != Lane::communicate) kernel_ms += event.duration_us / 1000;
    by_operation[graph_.node(event.node).op().name] += event.duration_us / 1000;
  }
  answer["kernel_ms"] = kernel_ms;
  answer["ms_by_operation"] = by_operation;
  answer["outside_kernels_ms"] = answer["ms"].get<double>() - kernel_ms;
  answer["executed_steps"] = trace.events().size();
  const CommunicationTimes times = communication_times(trace.events());
  answer["communicate_ms"] = times.all_ms;
  answer["exposed_ms"] = times.exposed_ms;
  return answer;
}

Json StepTraining::peak() const {
  return {{"planned_peak_bytes", plan_.planned_peak_bytes}, {"persistent_bytes", plan_.persistent_bytes},
          {"lower_bound_bytes", plan_.lower_bound_bytes},   {"bytes_communicated", plan_.bytes_communicated},
          {"parameters", num_parameters(graph_)},           {"recomputed_operations", plan_.recomputed_operations},
          {"sections", manager_.sections().size()},         {"compile_ms", compile_ms_}};
}

Json StepTraining::measured_peak() {
  session_.set_measuring(true);
  (void)step();
  session_.set_measuring(false);
  return {{"planned_peak_bytes", plan_.planned_peak_bytes},
          {"measured_peak_bytes", session_.statistics().measured_peak_bytes}};
}

Json StepTraining::measured(std::int64_t rounds) {
  const auto together = [&] {
    if (communicator_ != nullptr) communicator_->barrier();
  };
  Json last = step();
  std::vector<double> step_ms, communicate_ms, exposed_ms, kernel_ms;
  for (std::int64_t round = 0; round < rounds; ++round) {
    together();
    last = step();
    step_ms.push_back(last["ms"].get<double>());
    together();
    const Json traced = traced_step();
    communicate_ms.push_back(traced["communicate_ms"].get<double>());
    exposed_ms.push_back(traced["exposed_ms"].get<double>());
    kernel_ms.push_back(traced["kernel_ms"].get<double>());
  }
  const double all = median(communicate_ms), exposed = median(exposed_ms);
  Json row = {{"rank", communicator_ != nullptr ? communicator_->rank() : 0},
              {"step_ms", median(step_ms)},
              {"steps_ms", step_ms},
              {"kernel_ms", median(kernel_ms)},
              {"communicate_ms", all},
              {"exposed_ms", exposed},
              {"hidden_share", all > 0 ? 1 - exposed / all : 1},
              {"loss", last["loss"]}};
  row.update(measured_peak());
  row["bytes_communicated"] = plan_.bytes_communicated;
  row["variables"] = variables_hash();
  return row;
}

Json StepTraining::save_variables_to(const std::string& path) {
  save_variables(session_, path);
  return {{"file", path}};
}

Json StepTraining::save_choices_to(const std::string& path) const {
  session_.algorithm_choices().save(path);
  return {{"file", path}, {"problems", session_.algorithm_choices().algorithms.size()}};
}

Json StepTraining::save_batches_to(const std::string& path) const {
  const int rank = communicator_ != nullptr ? communicator_->rank() : 0;
  const std::string file = rank == 0 ? path : text_of(path, ".", rank);
  std::vector<NamedView> views;
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    views.push_back({text_of("images/", i), batches_[i].images.view()});
    views.push_back({text_of("labels/", i), batches_[i].labels.view()});
  }
  write_safetensors(file, views);
  return {{"file", file}};
}

Json StepTraining::save_profile_to(const std::string& path) {
  SF_CHECK(communicator_ == nullptr, ArgumentError, "a profile is measured by a training alone",
           hint("leave out --ranks"));
  const FeedTypes types = types_of(model_.feeds(batches_.front()));
  const Profile profile = measure_profile(session_, {model_.loss}, types, {.targets = manager_.training_operations()});
  profile.save(path);
  return {{"file", path}, {"kernels", profile.kernel_seconds.size()}};
}

float StepTraining::train_on(const Batch& batch) {
  const Feeds feeds = model_.feeds(batch);
  if (whole_graph_) {
    auto [loss] = session_.run({model_.loss}, feeds, {.targets = manager_.training_operations()});
    return loss.item<float>();
  }
  auto [loss] = manager_.run_full_cycle(session_, {model_.loss}, feeds);
  return loss.item<float>();
}

/// Of all variables' bytes: equal on ranks that train together.
std::string StepTraining::variables_hash() {
  std::string hashes;
  for (const Value& variable : graph_.values(kVariables)) hashes += tensor_hash(session_.read(variable).view());
  return text_hash(hashes);
}

}  // namespace sectionflow
