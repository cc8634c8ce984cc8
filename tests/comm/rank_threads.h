#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/split_mix.h"
#include "comm/communicator.h"

namespace sectionflow::comm_tests {

/// What came of each rank: the text of the error that it threw; empty where it threw none.
using Ends = std::vector<std::string>;

/// Calls `body` with each communicator, in a thread for each, and waits for all. A thread gives its communicator up at
/// its end, if `communicators` lets it.
inline Ends run_ranks(std::vector<std::shared_ptr<Communicator>> communicators,
                      const std::function<void(Communicator&)>& body) {
  Ends ends(communicators.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    threads.emplace_back([&body, &end = ends[rank], mine = std::move(communicators[rank])]() mutable {
      try {
        body(*mine);
      } catch (const std::exception& error) {
        end = error.what();
      }
      mine.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}
inline Ends run_ranks(int ranks, const CommunicatorOptions& options, const std::function<void(Communicator&)>& body) {
  return run_ranks(in_process_communicators(ranks, options), body);
}
inline Ends run_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  return run_ranks(ranks, {}, body);
}

/// Numbers of a seed and a rank, of all magnitudes, so that their sums depend on the order.
inline std::vector<float> random_floats(std::uint64_t seed, int rank, std::int64_t count) {
  SplitMix random(seed * 1000 + static_cast<std::uint64_t>(rank));
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(random.uniform()) - 0.5F, random.below(24) - 12);
  }
  return values;
}

/// start + x of rank 0 + x of rank 1 + ..., by a plain loop.
inline std::vector<float> plain_sum(std::uint64_t seed, int ranks, std::int64_t count, const float* start) {
  std::vector<float> sum;
  if (start != nullptr) sum.assign(start, start + count);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> x = random_floats(seed, rank, count);
    if (sum.empty() && rank == 0 && start == nullptr) {
      sum = x;
      continue;
    }
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += x[i];
  }
  return sum;
}

inline bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace sectionflow::comm_tests
