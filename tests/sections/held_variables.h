#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/sections/ranked_net.h"

namespace sectionflow::testing {

/// Where variables are held.
struct Held {
  Held(VariableDistribution how, std::optional<int> at = {}) : distribution(how), server(at) {}  // NOLINT: by the first
  VariableDistribution distribution;
  std::optional<int> server;

  std::string text() const {
    return text_of("distribution ", static_cast<int>(distribution), server ? text_of(" at rank ", *server) : "");
  }
  TrainingOptions in(TrainingOptions options) const {
    options.distribution = distribution;
    options.server = server;
    return options;
  }
};
inline constexpr auto kSharded = VariableDistribution::sharded;
inline constexpr auto kReplicated = VariableDistribution::replicated;
inline constexpr auto kServer = VariableDistribution::parameter_server;
inline constexpr auto kCopies = VariableDistribution::distributed_replicated;

inline RankedCase sharded_case(int ranks, int micro_batches, const Optimizer& optimizer, const TrainingOptions& options,
                               const Held& held = kSharded) {
  return ranked_case(ranks, micro_batches, optimizer, held.in(options));
}
inline RankedCase full_sharded_case(int ranks, int micro_batches = 1, const Held& held = kSharded) {
  return sharded_case(ranks, micro_batches, Adam{.learning_rate = 1e-2F}, all_options(1), held);
}

inline void PrintTo(const Held& held, std::ostream* out) {
  *out << held.text();
}

/// Layers of 512 KiB of parameters each, a section each, and a narrow head.
struct WideNet {
  explicit WideNet(int ranks, TrainingOptions options = {}, const Optimizer& optimizer = Adam{}) {
    Value x = images;
    for (int k = 0; k < kLayers; ++k) {
      auto section = manager.new_section();
      x = relu(dense(x, {.features = kWidth}));
    }
    {
      auto section = manager.new_section();
      loss = reduce_mean(square(dense(x, {.features = 4})));
    }
    options.ranks = ranks;
    manager.add_training_ops(optimizer, loss, options);
    manager.prepare_training();
  }
  Feeds feeds(HostTensor& batch, int number) const {
    batch = random_images({2, 1, 1, kWidth}, 5, number);
    batch = HostTensor::of<float>({2, kWidth},
                                  std::vector<float>(batch.values<float>().begin(), batch.values<float>().end()));
    return {{images, batch}};
  }

  static constexpr int kLayers = 6;
  static constexpr std::int64_t kWidth = 362;
  static constexpr std::size_t kLayerBytes = (kWidth * kWidth + kWidth) * sizeof(float);
  Graph graph;
  GraphSectionManager manager{graph};
  Value images = placeholder(graph, "images", {2, kWidth}), loss;
};

inline Variables variables_of(Session& session) {
  Variables variables;
  for (const Value& variable : session.graph().values(kVariables)) {
    variables.emplace(variable.name(), session.read(variable));
  }
  return variables;
}

inline SessionOptions one_thread(std::shared_ptr<Communicator> communicator = nullptr) {
  return {.threads = 1, .seed = 7, .communicator = std::move(communicator), .check_schedules = true};
}

/// Ranks that each take so many steps behind what `begin` has done; what variables there are then, of rank 0.
inline Variables trained(int ranks, const Held& held, int steps, const std::function<void(Session&)>& begin,
                         const std::function<void(Session&)>& end = {}) {
  std::vector<Variables> all(static_cast<std::size_t>(ranks));
  const auto thrown = on_ranks(ranks, [&](std::shared_ptr<Communicator> communicator) {
    const auto rank = communicator->rank();
    WideNet net(ranks, held.in({.clip_norm = 0.1F}));
    Session session(net.graph, one_thread(communicator));
    session.initialize();
    if (begin) begin(session);
    HostTensor batch;
    for (int step = 0; step < steps; ++step) {
      (void)net.manager.run_full_cycle(session, {net.loss}, net.feeds(batch, step));
    }
    if (end) end(session);
    all[static_cast<std::size_t>(rank)] = variables_of(session);
    communicator->barrier();
  });
  EXPECT_THAT(thrown, ::testing::Each("")) << ranks;
  for (const Variables& of_rank : all) EXPECT_EQ(of_rank.size(), all[0].size());
  return std::move(all[0]);
}

inline void expect_same(const Variables& a, const Variables& b) {
  EXPECT_EQ(changed_names(a, b), std::vector<std::string>());
  EXPECT_EQ(a.size(), b.size());
}

}  // namespace sectionflow::testing
