#include "comm/rank_costs.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "comm/call.h"
#include "comm/communicator.h"
#include "comm/rank_order_sum.h"
#include "comm/rounds.h"

namespace sectionflow {
namespace {

double carried(const RankLink& link, double bytes) {
  return link.bytes_per_second > 0 ? bytes / link.bytes_per_second : 0;
}

/// So many rounds, each of a message of so many bytes.
RankCost rounds_of(double rounds, const RankLink& link, double bytes) {
  return {.seconds = rounds * (link.latency + carried(link, bytes)), .latency_seconds = rounds * link.latency};
}

RankCost sum_of(const RankCost& a, const RankCost& b) {
  return {a.seconds + b.seconds, a.latency_seconds + b.latency_seconds, a.bytes_sent + b.bytes_sent};
}

double log2_up(int count) {
  return std::ceil(std::log2(static_cast<double>(count)));
}

/// The link that a round of a ring waits for, where neighbours send to each other within machines and between them.
RankLink slower_link(const RankNetwork& network, double bytes) {
  if (network.machines() == 1) return network.machine_link;
  if (network.neighbours() == 1) return network.link;
  const auto seconds = [&](const RankLink& link) { return link.latency + carried(link, bytes); };
  return seconds(network.machine_link) > seconds(network.link) ? network.machine_link : network.link;
}

RankCost by_ring(double bytes, double rounds, const RankNetwork& network) {
  RankCost cost = rounds_of(rounds, slower_link(network, bytes), bytes);
  cost.bytes_sent = rounds * bytes;
  return cost;
}

RankCost by_tree(double bytes, const RankNetwork& network) {
  const double within = log2_up(network.neighbours()), between = log2_up(network.machines());
  RankCost cost =
      sum_of(rounds_of(2 * within, network.machine_link, bytes), rounds_of(2 * between, network.link, bytes));
  cost.bytes_sent = (within + between) * bytes;
  return cost;
}

RankCost by_machines(double bytes, const RankNetwork& network) {
  const double g = network.neighbours(), k = network.machines();
  RankCost cost = sum_of(rounds_of(2 * (g - 1), network.machine_link, bytes / g),
                         // g rings share the link of their machine.
                         rounds_of(2 * (k - 1), network.link, bytes / k));
  cost.bytes_sent = 2 * (g - 1) / g * bytes + 2 * (k - 1) / k * bytes / g;
  return cost;
}

/// Seconds that one message to each other rank keeps the links busy.
double spread(double bytes, const RankNetwork& network) {
  const double g = network.neighbours(), others = network.ranks - g;
  return std::max(carried(network.machine_link, (g - 1) * bytes), carried(network.link, g * others * bytes));
}

double farthest_latency(const RankNetwork& network) {
  const double within = network.neighbours() > 1 ? network.machine_link.latency : 0;
  return std::max(within, network.machines() > 1 ? network.link.latency : 0);
}

/// Seconds that one message of each rank to one of them keeps the links busy.
double brought(double bytes, const RankNetwork& network) {
  const double g = network.neighbours();
  return std::max(carried(network.machine_link, g > 1 ? bytes : 0),
                  carried(network.link, network.machines() > 1 ? g * bytes : 0));
}

/// The rounds of comm/rounds.h: each rank sends a chunk piece by piece, of which two are on their way, and of which
/// each keeps the links busy for `seconds_of(bytes, network)`.
double in_pieces(double chunk, const RankNetwork& network, bool adds,
                 double (*seconds_of)(double, const RankNetwork&) = spread) {
  const double latency = farthest_latency(network), piece = kPieceBytes;
  const auto pieces = static_cast<std::int64_t>(std::ceil(chunk / piece));
  const auto bytes_of = [&](std::int64_t index) { return std::min(piece, chunk - static_cast<double>(index) * piece); };
  double now = 0, free_at = seconds_of(bytes_of(0), network), arrival = free_at + latency;
  for (std::int64_t round = 0; round < pieces; ++round) {
    double next = arrival;
    if (round + 1 < pieces) {
      free_at = std::max(free_at, now) + seconds_of(bytes_of(round + 1), network);
      next = free_at + latency;
    }
    const double added = adds && network.bytes_added_per_second > 0
                             ? (network.ranks + 1) * bytes_of(round) / network.bytes_added_per_second
                             : 0;
    now = std::max(now, arrival) + added;
    arrival = next;
  }
  return now;
}

/// That all make the same call, as each tells each other.
RankCost agreement(const RankNetwork& network) {
  const double latency = farthest_latency(network);
  return {.seconds = network.call_seconds + spread(sizeof(Call), network) + latency,
          .latency_seconds = network.call_seconds + latency,
          .bytes_sent = (network.ranks - 1) * static_cast<double>(sizeof(Call))};
}

RankCost in_phases(const std::vector<double>& seconds, double bytes_sent, const RankNetwork& network) {
  RankCost cost = agreement(network);
  for (const double phase : seconds) {
    cost.seconds += phase;
    cost.latency_seconds += std::min(phase, farthest_latency(network));
  }
  cost.bytes_sent += bytes_sent;
  return cost;
}

RankCost directly(double bytes, const RankNetwork& network) {
  const Chunk longest = chunk_of(static_cast<std::int64_t>(std::ceil(bytes / sizeof(float))), 0, network.ranks);
  const double chunk = std::min(bytes, static_cast<double>(longest.end) * sizeof(float));
  const double others = network.ranks - 1;
  return in_phases({in_pieces(chunk, network, true), in_pieces(chunk, network, false)},
                   // Of the other chunks, and of its own to all.
                   (bytes - chunk) + others * chunk, network);
}

}  // namespace

void check_network(const RankNetwork& network) {
  SF_CHECK(network.ranks >= 1 && network.ranks_per_machine >= 1, ArgumentError, network.ranks, " ranks of ",
           network.ranks_per_machine, " a machine; wanted at least 1");
  for (const double number :
       {network.link.bytes_per_second, network.link.latency, network.machine_link.bytes_per_second,
        network.machine_link.latency, network.bytes_added_per_second, network.call_seconds}) {
    SF_CHECK(std::isfinite(number) && number >= 0, ArgumentError, "a link of ranks has the number ", number,
             "; wanted rates and latencies of at least 0");
  }
}

RankCost all_reduce_cost(double bytes, const RankNetwork& network) {
  check_network(network);
  if (network.ranks == 1 || bytes <= 0) return {};
  const RankCost call{.seconds = network.call_seconds, .latency_seconds = network.call_seconds};
  switch (network.reduction) {
    case Reduction::ring:
      return sum_of(call, by_ring(bytes / network.ranks, 2.0 * (network.ranks - 1), network));
    case Reduction::tree:
      return sum_of(call, by_tree(bytes, network));
    case Reduction::hierarchical:
      return sum_of(call, by_machines(bytes, network));
    case Reduction::direct:
      break;
  }
  return directly(bytes, network);
}

RankCost all_gather_cost(double bytes, const RankNetwork& network) {
  check_network(network);
  if (network.ranks == 1 || bytes <= 0) return {};
  if (network.reduction == Reduction::direct) {
    return in_phases({in_pieces(bytes, network, false)}, (network.ranks - 1) * bytes, network);
  }
  const RankCost call{.seconds = network.call_seconds, .latency_seconds = network.call_seconds};
  return sum_of(call, by_ring(bytes, network.ranks - 1, network));
}

RankCost reduce_cost(double bytes, const RankNetwork& network) {
  check_network(network);
  if (network.ranks == 1 || bytes <= 0) return {};
  return in_phases({in_pieces(bytes, network, true, brought)}, bytes, network);
}

RankCost broadcast_cost(double bytes, const RankNetwork& network) {
  check_network(network);
  if (network.ranks == 1 || bytes <= 0) return {};
  const double others = network.ranks - 1;
  if (bytes <= static_cast<double>(kShortBroadcast) || network.ranks == 2)
    return in_phases({in_pieces(bytes, network, false)}, others * bytes, network);
  const double stretch = bytes / network.ranks;
  // The root sends each its stretch, and its own to all.
  return in_phases({in_pieces(stretch, network, false), in_pieces(stretch, network, false)}, 2 * others * stretch,
                   network);
}

std::string name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::ring:
      return "ring";
    case Reduction::tree:
      return "tree";
    case Reduction::hierarchical:
      return "hierarchical";
    case Reduction::direct:
      break;
  }
  return "direct";
}

std::vector<Reduction> reductions() {
  return {Reduction::direct, Reduction::ring, Reduction::tree, Reduction::hierarchical};
}

}  // namespace sectionflow
