#include "comm/mpi/mpi_transport.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "comm/mpi_module.h"

namespace sectionflow {
namespace {

using namespace std::chrono_literals;

constexpr int kData = 1, kNotice = 2;  // tags
// For notices that MPI has not sent at once, and for what it may still be able to end.
constexpr auto kGrace = 200ms;
// How long a rank that leaves after a failure waits for others to leave.
constexpr auto kLastWait = 1s;

/// Pauses between two looks, which end by `until`.
class Patience {
 public:
  using Clock = Transport::Clock;

  explicit Patience(Clock::time_point until = Clock::time_point::max()) : until_(until) {}
  void pause() {
    // Where all cores compute, who yields waits for a whole time slice of others; who sleeps has the core when it
    // wakes.
    if (looks_ < kQuickLooks) {
      ++looks_;
      return;
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(next_, until_ - Clock::now()));
    next_ = std::min(kLongest, next_ * 2);
  }

 private:
  static constexpr int kQuickLooks = 20;
  static constexpr std::chrono::microseconds kLongest = 200us;
  Clock::time_point until_;
  std::chrono::microseconds next_{5};
  int looks_ = 0;
};

std::string text_of_status(int status) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(status, text.data(), &length) != MPI_SUCCESS) return text_of("MPI's error ", status);
  return text_of("MPI says: ", std::string_view(text.data(), static_cast<std::size_t>(length)));
}

bool mpi_has_ended() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

/// What this process has of MPI from one try for a communicator to the next, which go one behind the other.
struct Beginnings {
  bool are_ours = false;  // the program has not begun MPI: it is for us to end
  // A world of our own, which all ranks make together. A try that has given up leaves it to the next: MPI goes on
  // making it, and other ranks take it for theirs.
  MPI_Comm ranks = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  bool are_under_way = false;
};

Beginnings& beginnings() {
  static Beginnings of_process;
  return of_process;
}

/// Begins MPI unless the program, or an earlier try, has. False: `why_not` tells.
bool begin_mpi(std::string& why_not) {
  if (mpi_has_ended()) {
    why_not = "MPI has ended in this process, and cannot begin again";
    return false;
  }
  int flag = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&flag);
  if (flag == 0) {
    beginnings().are_ours = true;
    // Where there are more ranks than cores Open MPI would yield in every look; see Patience. A user's setting stays.
    setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0);
  }
  const int status =
      flag == 0 ? MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level) : MPI_Query_thread(&level);
  if (status != MPI_SUCCESS) {
    why_not = text_of_status(status);
    return false;
  }
  if (level < MPI_THREAD_SERIALIZED) {
    why_not = "MPI was begun for one thread alone; begin it by MPI_Init_thread with MPI_THREAD_SERIALIZED or more";
    return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<Transport> MpiTransport::make(std::chrono::milliseconds deadline, CommunicationFailure& refusal) {
  if (!begin_mpi(refusal.text)) return nullptr;
  // A world of our own: what the program sends does not meet what we send.
  Beginnings& world = beginnings();
  int status = MPI_SUCCESS, is_done = 0;
  if (!world.are_under_way) status = MPI_Comm_idup(MPI_COMM_WORLD, &world.ranks, &world.request);
  world.are_under_way = status == MPI_SUCCESS;
  const Clock::time_point until = Clock::now() + deadline;
  for (Patience patience; status == MPI_SUCCESS && is_done == 0;) {
    status = MPI_Test(&world.request, &is_done, MPI_STATUS_IGNORE);
    if (is_done == 0 && Clock::now() > until) {
      refusal.code = ErrorCode::communication;
      refusal.text = text_of("not all ranks have come within ", deadline.count(), " ms");
      return nullptr;
    }
    if (is_done == 0) patience.pause();
  }
  world.are_under_way = false;
  if (status != MPI_SUCCESS) {
    refusal.text = text_of_status(status);
    return nullptr;
  }
  MPI_Comm_set_errhandler(world.ranks, MPI_ERRORS_RETURN);
  return std::unique_ptr<Transport>(new MpiTransport(world.ranks, world.are_ours));
}

MpiTransport::MpiTransport(MPI_Comm ranks, bool ends_mpi)
    : ranks_(ranks), ends_mpi_(ends_mpi), mail_(std::make_unique<Mail>()) {
  MPI_Comm_rank(ranks_, &rank_);
  MPI_Comm_size(ranks_, &size_);
  const auto size = static_cast<std::size_t>(size_);
  places_.reserve(kPostedAtOnce * size);
  outgoing_requests_.reserve(2 * size);
  has_left_.resize(size);
  open_for_notices();
}

MpiTransport::~MpiTransport() {
  Notice leave;
  leave.leaves = 1;
  leave.rank = rank_;
  if (stop_where_mpi_has_ended()) {
    leave_mail();
    return;
  }
  if (is_abandoned_) {
    // The launcher ends the others when it sees this process end; until then they find out why.
    std::this_thread::sleep_for(kLastWait);
    leave_mail();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    has_left_[static_cast<std::size_t>(rank_)] = 1;
    send_notice(leave);
  }
  Clock::time_point failed_at{};
  for (Patience patience;; patience.pause()) {
    const std::lock_guard lock(mutex_);
    read_notices();
    if (all_have_left() && notices_have_gone()) break;
    if (failure_ && failed_at == Clock::time_point{}) failed_at = Clock::now();
    // Who has died will not leave, and an end of MPI would wait for it.
    if (failure_ && Clock::now() > failed_at + kLastWait) {
      leave_mail();
      return;
    }
  }
  if (incoming_request_ != MPI_REQUEST_NULL) {
    MPI_Cancel(&incoming_request_);
    MPI_Wait(&incoming_request_, MPI_STATUS_IGNORE);
  }
  if (ends_mpi_) {
    MPI_Finalize();
  } else {
    // All have left: nobody is waited for.
    MPI_Comm_free(&ranks_);
  }
}

std::string MpiTransport::description() const {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string_view version(text.data(), static_cast<std::size_t>(length));
  version = version.substr(0, version.find_first_of(",\n"));
  return text_of(size_, size_ == 1 ? " rank by MPI (" : " ranks by MPI (", version, ")");
}

Transport::Ticket MpiTransport::post_send(int to, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const Ticket ticket = take_place(to, true);
  if (!is_abandoned_) {
    note(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, kData, ranks_,
                   &places_[static_cast<std::size_t>(ticket)].request),
         to);
  }
  return ticket;
}

Transport::Ticket MpiTransport::post_receive(int from, std::span<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const Ticket ticket = take_place(from, false);
  if (!is_abandoned_) {
    note(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from, kData, ranks_,
                   &places_[static_cast<std::size_t>(ticket)].request),
         from);
  }
  return ticket;
}

Transport::Outcome MpiTransport::wait(Ticket ticket, Clock::time_point until) {
  for (Patience patience(until);; patience.pause()) {
    const std::lock_guard lock(mutex_);
    if (is_abandoned_) return Outcome::failed;
    Place& place = places_[static_cast<std::size_t>(ticket)];
    // Before the test: what a rank has sent before it left comes before that notice.
    read_notices();
    if (test(place.request, place.other)) {
      place.is_used = false;
      return Outcome::done;
    }
    if (failure_) return Outcome::failed;
    if (has_left_[static_cast<std::size_t>(place.other)] != 0) return Outcome::left;
    if (Clock::now() >= until) return Outcome::late;
  }
}

void MpiTransport::abandon() noexcept {
  const std::lock_guard lock(mutex_);
  if (stop_where_mpi_has_ended() || is_abandoned_) return;
  for (Place& place : places_) {
    if (place.is_used && !place.sends && place.request != MPI_REQUEST_NULL) MPI_Cancel(&place.request);
  }
  const Clock::time_point until = Clock::now() + kGrace;
  for (Patience patience;; patience.pause()) {
    bool is_clean = notices_have_gone();
    for (Place& place : places_) {
      if (place.is_used && test(place.request, place.other)) place.is_used = false;
      is_clean = is_clean && !place.is_used;
    }
    if (is_clean) return;
    if (Clock::now() < until) continue;
    is_abandoned_ = true;
    return;
  }
}

void MpiTransport::fail(const CommunicationFailure& failure) noexcept {
  const std::lock_guard lock(mutex_);
  (void)stop_where_mpi_has_ended();
  declare(failure);
  const Clock::time_point until = Clock::now() + kGrace;
  for (Patience patience; !is_abandoned_ && !notices_have_gone() && Clock::now() < until;) patience.pause();
}

std::optional<CommunicationFailure> MpiTransport::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Transport::Ticket MpiTransport::take_place(int other, bool sends) {
  const auto found = std::find_if(places_.begin(), places_.end(), [](const Place& place) { return !place.is_used; });
  const auto index = found - places_.begin();
  if (found == places_.end()) places_.emplace_back();
  places_[static_cast<std::size_t>(index)] = {MPI_REQUEST_NULL, other, true, sends};
  return static_cast<Ticket>(index);
}

/// The first failure is kept, and told to all others.
void MpiTransport::declare(const CommunicationFailure& failure) noexcept {
  if (failure_) return;
  failure_.emplace(CommunicationFailure{failure.rank, failure.code, {}});
  try {
    failure_->text = failure.text;
  } catch (...) {
    failure_->text.clear();  // others learn that it has failed, if not why
  }
  if (is_abandoned_) return;
  Notice notice;
  notice.rank = failure.rank;
  notice.code = static_cast<std::int32_t>(failure.code);
  std::memcpy(notice.text.data(), failure.text.data(), std::min(failure.text.size(), notice.text.size() - 1));
  send_notice(notice);
}

void MpiTransport::note(int status, int other) {
  if (status == MPI_SUCCESS || failure_) return;
  declare({rank_, ErrorCode::communication, text_of("rank ", other, " cannot be reached: ", text_of_status(status))});
}

/// A program that has begun MPI may end it while there are communicators. These must not call MPI then.
bool MpiTransport::stop_where_mpi_has_ended() noexcept {
  const bool has_ended = mpi_has_ended();
  is_abandoned_ = is_abandoned_ || has_ended;
  return has_ended;
}

void MpiTransport::leave_mail() {
  (void)mail_.release();
}

/// Whether a request has ended; one that MPI refuses never ends well, and is a failure.
bool MpiTransport::test(MPI_Request& request, int other) {
  if (request == MPI_REQUEST_NULL) return !failure_;
  int is_done = 0;
  const int status = MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
  note(status, other);
  return status == MPI_SUCCESS && is_done != 0;
}

void MpiTransport::open_for_notices() {
  note(MPI_Irecv(&mail_->incoming, sizeof(Notice), MPI_BYTE, MPI_ANY_SOURCE, kNotice, ranks_, &incoming_request_),
       rank_);
}

void MpiTransport::read_notices() {
  while (incoming_request_ != MPI_REQUEST_NULL) {
    int is_done = 0;
    MPI_Status from;
    if (MPI_Test(&incoming_request_, &is_done, &from) != MPI_SUCCESS || is_done == 0) return;
    const Notice notice = mail_->incoming;
    open_for_notices();
    if (notice.leaves != 0) {
      has_left_[static_cast<std::size_t>(from.MPI_SOURCE)] = 1;
    } else if (!failure_) {
      failure_ = {notice.rank, static_cast<ErrorCode>(notice.code), std::string(notice.text.data())};
    }
  }
}

void MpiTransport::send_notice(const Notice& notice) {
  Notice& stays = mail_->outgoing[notice.leaves != 0 ? 1 : 0];
  stays = notice;
  for (int other = 0; other < size_; ++other) {
    // Who has left makes no more calls, and waits for our leave alone.
    if (other == rank_ || (notice.leaves == 0 && has_left_[static_cast<std::size_t>(other)] != 0)) continue;
    MPI_Request& request = outgoing_requests_.emplace_back(MPI_REQUEST_NULL);
    // Whom it does not reach finds out by its deadline.
    (void)MPI_Isend(&stays, sizeof(Notice), MPI_BYTE, other, kNotice, ranks_, &request);
  }
}

bool MpiTransport::notices_have_gone() {
  bool all = true;
  for (MPI_Request& request : outgoing_requests_) {
    int is_done = 1;
    if (request != MPI_REQUEST_NULL && MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS) continue;
    all = all && is_done != 0;
  }
  return all;
}

bool MpiTransport::all_have_left() const {
  return std::all_of(has_left_.begin(), has_left_.end(), [](char left) { return left != 0; });
}

}  // namespace sectionflow

/// See kMpiModuleEntry. Nothing leaves it but its result.
extern "C" __attribute__((visibility("default"))) void sectionflow_mpi_module_v1(sectionflow::MpiModule& result) {
  result.make_transport = sectionflow::MpiTransport::make;
}
