#include "comm/throttled_transport.h"

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

namespace sectionflow {
namespace {

using namespace std::chrono_literals;

// How long a failure may stay unseen by who has nothing to wait for but the link.
constexpr auto kGlance = 500us;

class ThrottledTransport final : public Transport {
 public:
  ThrottledTransport(std::unique_ptr<Transport> inner, double bytes_per_second, std::chrono::microseconds latency)
      : inner_(std::move(inner)),
        nanoseconds_per_byte_(bytes_per_second > 0 ? 1e9 / bytes_per_second : 0),
        latency_(latency),
        places_(kPostedAtOnce * static_cast<std::size_t>(inner_->size())) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string description() const override { return inner_->description(); }

  Ticket post_send(int to, std::span<const std::byte> bytes) override {
    const auto passing =
        std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(bytes.size()) * nanoseconds_per_byte_));
    // No two are due at the same time, so that they keep their order.
    free_at_ = std::max(free_at_, Clock::now()) + passing + 1ns;
    return take_place({.is_used = true, .is_held = true, .to = to, .bytes = bytes, .due = free_at_ + latency_});
  }
  Ticket post_receive(int from, std::span<std::byte> bytes) override {
    return take_place({.is_used = true, .inner = inner_->post_receive(from, bytes)});
  }

  Outcome wait(Ticket ticket, Clock::time_point until) override {
    Place& place = places_[static_cast<std::size_t>(ticket)];
    while (true) {
      hand_over();
      const Clock::time_point now = Clock::now();
      // What is due next must not wait for others.
      const Clock::time_point next = next_due();
      if (!place.is_held) {
        const Outcome outcome = inner_->wait(place.inner, std::min(until, next));
        if (outcome == Outcome::done) place.is_used = false;
        if (outcome != Outcome::late || now >= until) return outcome;
      } else {
        if (inner_->failure()) return Outcome::failed;
        // The time that its own bytes take to pass is nobody's delay.
        std::this_thread::sleep_until(std::min(next, now + kGlance));
      }
    }
  }

  void abandon() noexcept override {
    for (Place& place : places_) place.is_used = place.is_held = false;
    inner_->abandon();
  }
  void fail(const CommunicationFailure& failure) noexcept override { inner_->fail(failure); }
  std::optional<CommunicationFailure> failure() const override { return inner_->failure(); }

 private:
  struct Place {
    bool is_used = false;
    bool is_held = false;  // a message that has not passed the link
    int to = 0;
    std::span<const std::byte> bytes{};
    Clock::time_point due{};
    Ticket inner = 0;
  };

  Ticket take_place(const Place& place) {
    const auto found = std::find_if(places_.begin(), places_.end(), [](const Place& each) { return !each.is_used; });
    const auto index = found - places_.begin();
    if (found == places_.end()) {
      places_.push_back(place);
    } else {
      *found = place;
    }
    return static_cast<Ticket>(index);
  }

  Place* earliest() {
    Place* first = nullptr;
    for (Place& place : places_) {
      if (place.is_held && (first == nullptr || place.due < first->due)) first = &place;
    }
    return first;
  }
  Clock::time_point next_due() {
    const Place* const first = earliest();
    return first == nullptr ? Clock::time_point::max() : first->due;
  }
  /// Gives on what has passed the link, in the order in which it came.
  void hand_over() {
    for (Place* first = earliest(); first != nullptr && first->due <= Clock::now(); first = earliest()) {
      first->is_held = false;
      first->inner = inner_->post_send(first->to, first->bytes);
    }
  }

  std::unique_ptr<Transport> inner_;
  double nanoseconds_per_byte_;
  std::chrono::microseconds latency_;
  Clock::time_point free_at_{};  // when all messages so far have passed the link
  std::deque<Place> places_;
};

}  // namespace

std::unique_ptr<Transport> throttled(std::unique_ptr<Transport> transport, double bytes_per_second,
                                     std::chrono::microseconds latency) {
  return std::make_unique<ThrottledTransport>(std::move(transport), bytes_per_second, latency);
}

}  // namespace sectionflow
