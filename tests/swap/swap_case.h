#pragma once

#include <string>

#include "base/bytes.h"
#include "fit/insert_swaps.h"
#include "runtime/engine.h"
#include "swap/measure_profile.h"
#include "swap/swap_planner.h"
#include "tests/sections/image_nets.h"

// Networks whose whole-graph program swaps.
namespace sectionflow::testing {

/// Convolutions with batch norm, a head, no sections: activations lie idle between forward and backward.
inline TrainingCase deep_net(int layers = 6, std::int64_t filters = 8) {
  return {"deep net", [=](Graph& graph, GraphSectionManager& manager) {
            const Inputs in(graph);
            Value x = in.images;
            Value loss;
            {
              auto section = manager.new_section();
              for (int i = 0; i < layers; ++i) x = conv_norm_relu(x, in.is_training, filters);
              loss = head_loss(x, in.labels);
            }
            manager.add_training_ops(Momentum{.learning_rate = 0.05F}, loss);
            manager.prepare_training();
            return TrainingNet{loss, in.feeds()};
          }};
}

/// A session that swaps, and the network that it trains as a whole.
class Swapped {
 public:
  Swapped(const TrainingCase& training_case, const SessionOptions& options, const SwapOptions& swaps = {})
      : manager_(graph_), net_(training_case.build(graph_, manager_)), session_(graph_, options) {
    insert_swaps(session_, swaps);
  }

  ProgramReport plan() {
    FeedStore store;
    const Feeds feeds = net_.feeds(0, store);
    return session_.plan({net_.loss}, types_of(feeds), {.targets = manager_.training_operations()});
  }
  const Program& program() {
    FeedStore store;
    const Feeds feeds = net_.feeds(0, store);
    return engine(session_).whole_program({net_.loss}, types_of(feeds), {.targets = manager_.training_operations()});
  }
  Profile measure() {
    FeedStore store;
    const Feeds feeds = net_.feeds(0, store);
    return measure_profile(session_, {net_.loss}, types_of(feeds), {.targets = manager_.training_operations()});
  }
  /// One step. Needs session().initialize().
  HostTensor run(std::int64_t step = 0) {
    FeedStore store;
    const Feeds feeds = net_.feeds(step, store);
    return session_.run(net_.loss, feeds, {.targets = manager_.training_operations()});
  }
  Session& session() { return session_; }
  Graph& graph() { return graph_; }

 private:
  Graph graph_;
  GraphSectionManager manager_;
  TrainingNet net_;
  Session session_;
};

/// What SwapPlanner makes of a list.
inline InstructionList with_swaps(const InstructionList& list, PlanningTools& tools, const OffloadPolicies& request) {
  const Profile nominal = Profile::nominal();
  return SwapPlanner(list, tools, request, nominal).plan().list;
}

/// With `device_memory`, one thread, and every schedule checked.
inline SessionOptions with_memory(SessionOptions options, std::size_t device_memory) {
  options.device_memory = device_memory;
  options.threads = 1;
  options.check_schedules = true;
  return options;
}

/// What the program needs without offloads, and the least that any plan comes down to.
struct Bounds {
  std::size_t whole = 0, least = 0;
};
inline Bounds bounds_of(const TrainingCase& training_case, const SessionOptions& options) {
  return {Swapped(training_case, with_memory(options, 1_GiB)).plan().planned_peak_bytes,
          Swapped(training_case, with_memory(options, 1)).plan().planned_peak_bytes};
}

}  // namespace sectionflow::testing
