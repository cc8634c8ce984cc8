#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/transport.h"

namespace sectionflow {

/// A rank that is a process, by calls of MPI that do not wait: who waits asks again and again, at first at once, then
/// ever more seldom, up to 0.2 ms, so that a lane that waits leaves the cores to those that compute.
///
/// Each rank has a receive open for notices of any other: that it has failed, or leaves. MPI cannot take back what it
/// is sending: where abandon() finds such bytes, MPI is not called again, not even to end it. The launcher then sees a
/// process that has not ended MPI, and ends the others.
class MpiTransport final : public Transport {
 public:
  /// See MpiModule::make_transport.
  static std::unique_ptr<Transport> make(std::chrono::milliseconds deadline, CommunicationFailure& refusal);
  ~MpiTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string description() const override;

  Ticket post_send(int to, std::span<const std::byte> bytes) override;
  Ticket post_receive(int from, std::span<std::byte> bytes) override;
  Outcome wait(Ticket ticket, Clock::time_point until) override;
  void abandon() noexcept override;

  void fail(const CommunicationFailure& failure) noexcept override;
  std::optional<CommunicationFailure> failure() const override;

 private:
  struct Place {
    MPI_Request request = MPI_REQUEST_NULL;
    int other = 0;
    bool is_used = false;
    bool sends = false;
  };
  /// What ranks tell each other beside calls. Small enough for MPI to send it without waiting for the receiver.
  struct Notice {
    std::int32_t leaves = 0;  // 1: leaves; 0: has failed
    std::int32_t rank = 0;
    std::int32_t code = 0;
    std::array<char, 1012> text{};
  };

  /// What MPI may still write to and read from when nobody can wait for it any more; it is left to MPI then.
  struct Mail {
    Notice incoming;
    std::array<Notice, 2> outgoing;  // a failure, a leave
  };

  MpiTransport(MPI_Comm ranks, bool ends_mpi);
  // All below: with the mutex held.
  Ticket take_place(int other, bool sends);
  void declare(const CommunicationFailure& failure) noexcept;
  void note(int status, int other);
  bool stop_where_mpi_has_ended() noexcept;
  void leave_mail();
  void open_for_notices();
  void read_notices();
  void send_notice(const Notice& notice);
  bool notices_have_gone();
  bool test(MPI_Request& request, int other);
  bool all_have_left() const;

  mutable std::mutex mutex_;  // MPI is called by one thread at a time
  MPI_Comm ranks_;
  bool ends_mpi_;
  int rank_ = 0, size_ = 1;
  bool is_abandoned_ = false;  // MPI may not be called
  std::vector<Place> places_;
  std::unique_ptr<Mail> mail_;
  MPI_Request incoming_request_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> outgoing_requests_;
  std::vector<char> has_left_;
  std::optional<CommunicationFailure> failure_;
};

}  // namespace sectionflow
