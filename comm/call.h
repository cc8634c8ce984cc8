#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/dtype.h"
#include "comm/transport.h"

namespace sectionflow {

struct CommunicatorOptions;

/// Throws: ArgumentError for options out of range.
void check_communicator_options(const CommunicatorOptions& options);

/// The calls of a Communicator.
enum class CallKind : std::uint32_t {
  barrier,
  broadcast,
  all_gather,
  all_reduce_sum,
  reduce_scatter_sum,
  expect_same,
  reduce_sum
};

/// A call as ranks tell each other of it: all of its fields, but the digest of expect_same, must be the same on all.
struct Call {
  std::uint64_t format = kFormat;
  std::uint64_t number = 0;  ///< from 1
  CallKind kind = CallKind::barrier;
  Dtype dtype = Dtype::u8;
  std::uint8_t has_start = 0;
  std::uint16_t zero = 0;  ///< no byte of what is sent is undefined
  std::int64_t elements = 0;
  std::int64_t root = 0;
  std::uint64_t digest = 0;  ///< of the text of expect_same
  std::uint64_t work = 0;    ///< Communicator::set_work

  /// Of this struct, so that processes of two versions find each other out.
  static constexpr std::uint64_t kFormat = 0x5346434F4D4D0001;
};
static_assert(std::has_unique_object_representations_v<Call>);

/// "call 17, all_reduce_sum of 4096 f32 onto a start"
std::string call_text(const Call& call);
/// Whether two ranks make the same call.
bool is_same_call(const Call& a, const Call& b);

/// One call of one rank, while it waits for others: whatever goes wrong ends the calls of all ranks, gives back what
/// has been posted, and is thrown with the name of the call.
class OpenCall {
 public:
  /// Throws: CommunicationError where a failure is known already.
  OpenCall(Transport& transport, std::chrono::milliseconds deadline, const Call& call);
  OpenCall(const OpenCall&) = delete;
  OpenCall& operator=(const OpenCall&) = delete;

  Transport& transport() const { return transport_; }
  const Call& call() const { return call_; }

  /// Waits for what has been posted for or by rank `other`. Throws: CommunicationError.
  void wait(Transport::Ticket ticket, int other) const;
  /// Checks the call of rank `other` beside this. Throws: CommunicationError (SF-E511).
  void compare(const Call& theirs, int other) const;

 private:
  std::string head() const;
  [[noreturn]] void end(ErrorCode code, const std::string& sentence, const std::string& hint) const;
  [[noreturn]] void throw_failure(const CommunicationFailure& failure) const;

  Transport& transport_;
  std::chrono::milliseconds deadline_;
  Call call_;
};

}  // namespace sectionflow
