#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "base/error_code.h"

namespace sectionflow {

/// Why no call can succeed any more.
struct CommunicationFailure {
  int rank = 0;  ///< who found it
  ErrorCode code = ErrorCode::communication;
  std::string text;
};

/// What calls post at once for each rank, at most: this call, and two messages each way. Places for so many are made
/// beforehand, so that calls allocate nothing.
inline constexpr std::size_t kPostedAtOnce = 6;

/// Carries bytes between ranks; it knows no calls and no sums.
///
/// What one rank posts for another arrives in the order of posting; the receiver posts as many bytes. Posted bytes are
/// the transport's until a wait for their ticket is `done`, or abandon(). A rank that waits for one ticket carries on
/// all that it has posted.
///
/// Threads: one at a time, but for fail() and failure(), which any may call at any time. Nothing is thrown, so that a
/// shared object without our symbols may implement it; what goes wrong is a failure().
class Transport {
 public:
  using Clock = std::chrono::steady_clock;
  /// Of something posted; it is gone once a wait was `done`.
  using Ticket = int;
  /// `late`: not by the time that was given; `failed`: there is a failure(); `left`: the other rank will not come.
  enum class Outcome { done, late, failed, left };

  /// Leaves: others find out that wait for this rank.
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string description() const = 0;

  virtual Ticket post_send(int to, std::span<const std::byte> bytes) = 0;
  virtual Ticket post_receive(int from, std::span<std::byte> bytes) = 0;
  /// Until the ticket's bytes have been sent, or have come, but no longer than `until`.
  virtual Outcome wait(Ticket ticket, Clock::time_point until) = 0;
  /// Takes back all that is posted: its bytes are not looked at again. Only after a failure.
  virtual void abandon() noexcept = 0;

  /// Tells all ranks, this one included; the first failure stays.
  virtual void fail(const CommunicationFailure& failure) noexcept = 0;
  virtual std::optional<CommunicationFailure> failure() const = 0;
};

}  // namespace sectionflow
