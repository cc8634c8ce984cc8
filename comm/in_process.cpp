// Ranks that are threads of one process: the receiver copies from where the sender's bytes lie.

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/transport.h"

namespace sectionflow {
namespace {

constexpr int kMostRanks = 1024;

/// Something posted, by a sender or a receiver.
struct Posted {
  enum class State { free, waiting, copying, done };
  State state = State::free;
  int other = 0;
  bool sends = false;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t bytes = 0;
  Posted* next = nullptr;  // what the same rank posted behind it for the same other
};

/// First in, first out; of what lies elsewhere, so that nothing is allocated.
struct Row {
  Posted* first = nullptr;
  Posted* last = nullptr;

  void push(Posted* posted) {
    posted->next = nullptr;
    (first == nullptr ? first : last->next) = posted;
    last = posted;
  }
  Posted* pop() {
    Posted* const posted = first;
    first = posted->next;
    return posted;
  }
  void remove(Posted* posted) {
    Row others;
    while (first != nullptr) {
      if (Posted* const next = pop(); next != posted) others.push(next);
    }
    *this = others;
  }
};

/// What the ranks of one process have in common. Everything is guarded by the mutex, but for bytes that are copied.
struct Hub {
  explicit Hub(int ranks)
      : size(ranks),
        has_left(static_cast<std::size_t>(ranks)),
        wake(static_cast<std::size_t>(ranks)),
        sends(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)),
        receives(sends.size()) {}

  std::size_t pair(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(size) + static_cast<std::size_t>(to);
  }
  void wake_all() {
    for (std::condition_variable& each : wake) each.notify_all();
  }

  const int size;
  std::mutex mutex;
  std::vector<char> has_left;                // by rank
  std::deque<std::condition_variable> wake;  // of each rank
  std::vector<Row> sends, receives;          // by pair, not yet taken
  std::optional<CommunicationFailure> failure;
  bool has_failed = false;
};

class InProcessTransport final : public Transport {
 public:
  InProcessTransport(std::shared_ptr<Hub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank), posted_(kPostedAtOnce * static_cast<std::size_t>(hub_->size)) {}
  ~InProcessTransport() override {
    take_back();
    const std::lock_guard lock(hub_->mutex);
    hub_->has_left[static_cast<std::size_t>(rank_)] = 1;
    hub_->wake_all();
  }

  int rank() const override { return rank_; }
  int size() const override { return hub_->size; }
  std::string description() const override {
    return text_of(hub_->size, hub_->size == 1 ? " rank" : " ranks", " in one process");
  }

  Ticket post_send(int to, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(hub_->mutex);
    const Ticket ticket = take_place(to, bytes.size());
    Posted& posted = posted_[static_cast<std::size_t>(ticket)];
    posted.sends = true;
    posted.from = bytes.data();
    hub_->sends[hub_->pair(rank_, to)].push(&posted);
    hub_->wake[static_cast<std::size_t>(to)].notify_all();
    return ticket;
  }

  Ticket post_receive(int from, std::span<std::byte> bytes) override {
    const std::lock_guard lock(hub_->mutex);
    const Ticket ticket = take_place(from, bytes.size());
    Posted& posted = posted_[static_cast<std::size_t>(ticket)];
    posted.sends = false;
    posted.to = bytes.data();
    hub_->receives[hub_->pair(from, rank_)].push(&posted);
    return ticket;
  }

  Outcome wait(Ticket ticket, Clock::time_point until) override {
    Posted& posted = posted_[static_cast<std::size_t>(ticket)];
    std::unique_lock lock(hub_->mutex);
    while (true) {
      // The copy of one message may have let others come.
      while (receive_one(lock)) {
      }
      if (posted.state == Posted::State::done) {
        posted.state = Posted::State::free;
        return Outcome::done;
      }
      if (hub_->has_failed) return Outcome::failed;
      // Another that copies our bytes goes on until it has them.
      const bool is_copied = posted.state == Posted::State::copying;
      if (!is_copied && hub_->has_left[static_cast<std::size_t>(posted.other)] != 0) return Outcome::left;
      if (!is_copied && Clock::now() >= until) return Outcome::late;
      std::condition_variable& wake = hub_->wake[static_cast<std::size_t>(rank_)];
      if (is_copied) {
        wake.wait(lock);
      } else {
        wake.wait_until(lock, until);
      }
    }
  }

  void abandon() noexcept override { take_back(); }

  void fail(const CommunicationFailure& failure) noexcept override {
    const std::lock_guard lock(hub_->mutex);
    if (hub_->has_failed) return;
    hub_->has_failed = true;
    try {
      hub_->failure = failure;
    } catch (...) {
      hub_->failure.emplace(CommunicationFailure{failure.rank, failure.code, {}});
    }
    hub_->wake_all();
  }

  std::optional<CommunicationFailure> failure() const override {
    const std::lock_guard lock(hub_->mutex);
    return hub_->failure;
  }

 private:
  // All below: with the mutex held.
  Ticket take_place(int other, std::size_t bytes) {
    const auto place = std::find_if(posted_.begin(), posted_.end(),
                                    [](const Posted& posted) { return posted.state == Posted::State::free; });
    // More than a call ever posts.
    const auto index = place - posted_.begin();
    if (place == posted_.end()) posted_.emplace_back();
    Posted& posted = posted_[static_cast<std::size_t>(index)];
    posted.state = Posted::State::waiting;
    posted.other = other;
    posted.bytes = bytes;
    return static_cast<Ticket>(index);
  }

  /// Copies a message that has come for a receive of ours, with the mutex free meanwhile; false where none has.
  bool receive_one(std::unique_lock<std::mutex>& lock) {
    for (int from = 0; from < hub_->size; ++from) {
      Row& receives = hub_->receives[hub_->pair(from, rank_)];
      Row& sends = hub_->sends[hub_->pair(from, rank_)];
      if (hub_->has_failed || receives.first == nullptr || sends.first == nullptr) continue;
      Posted& receive = *receives.pop();
      Posted& send = *sends.pop();
      send.state = receive.state = Posted::State::copying;
      lock.unlock();
      // Calls have agreed on how many they are.
      std::memcpy(receive.to, send.from, std::min(receive.bytes, send.bytes));
      lock.lock();
      send.state = receive.state = Posted::State::done;
      hub_->wake[static_cast<std::size_t>(from)].notify_all();
      return true;
    }
    return false;
  }

  void take_back() noexcept {
    std::unique_lock lock(hub_->mutex);
    for (Posted& posted : posted_) {
      if (posted.state == Posted::State::waiting) {
        const std::size_t pair = posted.sends ? hub_->pair(rank_, posted.other) : hub_->pair(posted.other, rank_);
        (posted.sends ? hub_->sends : hub_->receives)[pair].remove(&posted);
      }
      hub_->wake[static_cast<std::size_t>(rank_)].wait(lock, [&] { return posted.state != Posted::State::copying; });
      posted.state = Posted::State::free;
    }
  }

  std::shared_ptr<Hub> hub_;
  int rank_;
  std::deque<Posted> posted_;  // others know places in it
};

}  // namespace

std::vector<std::shared_ptr<Communicator>> in_process_communicators(int ranks, const CommunicatorOptions& options) {
  SF_CHECK(ranks >= 1 && ranks <= kMostRanks, ArgumentError, ranks, " ranks in one process; wanted 1 to ", kMostRanks);
  const auto hub = std::make_shared<Hub>(ranks);
  std::vector<std::shared_ptr<Communicator>> communicators;
  for (int rank = 0; rank < ranks; ++rank) {
    communicators.push_back(std::make_shared<Communicator>(std::make_unique<InProcessTransport>(hub, rank), options));
  }
  return communicators;
}

}  // namespace sectionflow
