#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sectionflow {

/// A link by which bytes are sent, one message behind the other.
struct RankLink {
  double bytes_per_second = 0;  ///< 0: no limit
  double latency = 0;           ///< seconds that each message comes later
};

/// How ranks add up. `direct`, which is what a Communicator does, has the bits of rank order; the others are what
/// libraries do, in orders of their own.
enum class Reduction {
  direct,       ///< each rank adds up a chunk of what all others send it, and sends the sum to all
  ring,         ///< n - 1 rounds in which each hands a chunk on, and n - 1 in which it hands on sums
  tree,         ///< to one rank along a binomial tree, and back
  hierarchical  ///< a ring in each machine, rings between machines for each chunk, and a ring in each machine
};

/// Ranks, and what lies between them.
struct RankNetwork {
  int ranks = 2;
  int ranks_per_machine = 1;  ///< as many in each
  RankLink link{};            ///< by which a machine sends to all others
  RankLink machine_link{};    ///< by which a rank sends to those of its machine
  Reduction reduction = Reduction::direct;
  double bytes_added_per_second = 0;  ///< by a rank; 0: adding takes no time
  double call_seconds = 0;            ///< that each call takes besides, on every rank

  int machines() const { return (ranks + ranks_per_machine - 1) / ranks_per_machine; }
  /// Ranks of a machine that is full.
  int neighbours() const { return ranks < ranks_per_machine ? ranks : ranks_per_machine; }
};
/// Throws: ArgumentError for numbers that mean nothing.
void check_network(const RankNetwork& network);

/// What a call costs.
struct RankCost {
  double seconds = 0;
  double latency_seconds = 0;  ///< of these, what no faster link would save
  double bytes_sent = 0;       ///< by the rank that sends most

  friend bool operator==(const RankCost&, const RankCost&) = default;
};

/// Of the sum of so many bytes over all ranks, which all get. One rank: nothing.
///
/// With n ranks, b bytes, one rank a machine, a link of B bytes a second and latency L, in closed form:
/// ring          2 (n - 1) (L + b / (n B)), and each sends 2 (n - 1) / n b
/// tree          2 ceil(log2 n) (L + b / B), and the root sends ceil(log2 n) b
/// hierarchical  with g ranks in each of k machines and B', L' within: 2 (g - 1) (L' + b / (g B')) + 2 (k - 1) (L + b /
/// (k B)) direct        as a ring sends, 3 messages deep whatever n is; of more than two pieces a chunk by the rounds
/// in which
///               they go (comm/rounds.h)
/// Sources: Thakur, Rabenseifner and Gropp 2005 (ring, tree); the rounds of comm/communicator.cpp (direct).
RankCost all_reduce_cost(double bytes, const RankNetwork& network);
/// Of so many bytes of each rank that all get, in rank order: directly, or by a ring.
RankCost all_gather_cost(double bytes, const RankNetwork& network);
/// Of the sum of so many bytes over all ranks, which one gets: directly, whatever the network's reduction. That rank
/// has a link of its own from each other, as a network without limits to what comes in would have it.
RankCost reduce_cost(double bytes, const RankNetwork& network);
/// Of so many bytes of one rank that all get: directly, short ones to each, long ones in stretches that ranks hand on.
RankCost broadcast_cost(double bytes, const RankNetwork& network);

/// "ring"
std::string name_of(Reduction reduction);
/// All, in the order of their names' list.
std::vector<Reduction> reductions();

}  // namespace sectionflow
