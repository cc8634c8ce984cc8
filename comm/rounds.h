#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "comm/call.h"
#include "comm/rank_order_sum.h"

namespace sectionflow {

/// A message that takes less time than telling others of it: the root of a broadcast sends it to each by itself.
inline constexpr std::size_t kShortBroadcast = 64 * 1024;

/// What goes to another rank, or comes from it, in pieces of kPieceBytes.
struct Flow {
  int rank = 0;
  std::byte* to = nullptr;          ///< where what comes lies; nullptr for what goes
  const std::byte* from = nullptr;  ///< where what goes lies
  std::size_t bytes = 0;
  /// The pieces that come lie in two places by turns, instead of one behind the other.
  bool by_turns = false;
  std::array<Transport::Ticket, kPiecesOnTheWay> tickets{};

  std::size_t pieces() const { return (bytes + kPieceBytes - 1) / kPieceBytes; }
  std::size_t offset(std::size_t piece) const { return (by_turns ? piece % kPiecesOnTheWay : piece) * kPieceBytes; }
  std::size_t size(std::size_t piece) const { return std::min(kPieceBytes, bytes - piece * kPieceBytes); }
};

/// The flows of a call. The bytes of one flow are as many at both of its ends.
using Flows = std::vector<Flow>;

inline void post_piece(const OpenCall& call, Flow& flow, std::size_t piece) {
  if (piece >= flow.pieces()) return;
  Transport& transport = call.transport();
  flow.tickets[piece % kPiecesOnTheWay] =
      flow.to != nullptr ? transport.post_receive(flow.rank, {flow.to + flow.offset(piece), flow.size(piece)})
                         : transport.post_send(flow.rank, {flow.from + flow.offset(piece), flow.size(piece)});
}

/// Carries all flows, in rounds: in round k piece k of each has gone or come, on_round(k) is called, and piece k + 1 is
/// on its way. Ranks cannot wait for each other in a circle: whoever is in the earliest round waits for pieces that all
/// others have posted. Throws: CommunicationError.
template <class OnRound>
void carry(const OpenCall& call, std::span<Flow> flows, const OnRound& on_round) {
  std::size_t rounds = 0;
  for (Flow& flow : flows) {
    rounds = std::max(rounds, flow.pieces());
    post_piece(call, flow, 0);
  }
  for (std::size_t round = 0; round < rounds; ++round) {
    for (Flow& flow : flows) post_piece(call, flow, round + 1);
    for (Flow& flow : flows) {
      if (round < flow.pieces()) call.wait(flow.tickets[round % kPiecesOnTheWay], flow.rank);
    }
    on_round(round);
  }
}

}  // namespace sectionflow
