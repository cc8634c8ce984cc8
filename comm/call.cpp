#include "comm/call.h"

#include <cmath>
#include <string_view>

#include "base/error.h"
#include "comm/communicator.h"

namespace sectionflow {
namespace {

using namespace std::chrono_literals;

std::string_view kind_name(CallKind kind) {
  switch (kind) {
    case CallKind::barrier:
      return "barrier";
    case CallKind::broadcast:
      return "broadcast";
    case CallKind::all_gather:
      return "all_gather";
    case CallKind::all_reduce_sum:
      return "all_reduce_sum";
    case CallKind::reduce_scatter_sum:
      return "reduce_scatter_sum";
    case CallKind::expect_same:
      return "expect_same";
    case CallKind::reduce_sum:
      return "reduce_sum";
  }
  return "a call of no name";
}

}  // namespace

void check_communicator_options(const CommunicatorOptions& options) {
  SF_CHECK(options.deadline >= 1ms && options.deadline <= std::chrono::hours(24 * 366), ArgumentError,
           "CommunicatorOptions::deadline is ", options.deadline.count(), " ms; wanted 1 ms to a year");
  const double rate = options.link_bytes_per_second;
  SF_CHECK(rate == 0 || (std::isfinite(rate) && rate >= 1000), ArgumentError,
           "CommunicatorOptions::link_bytes_per_second is ", rate, "; wanted at least 1000, or 0 for no limit");
  SF_CHECK(options.link_latency >= 0us && options.link_latency <= 10s, ArgumentError,
           "CommunicatorOptions::link_latency is ", options.link_latency.count(), " us; wanted 0 to 10 s");
}

std::string call_text(const Call& call) {
  if (call.format != Call::kFormat) return "a call of another version of SectionFlow";
  std::string text = text_of("call ", call.number, ", ", kind_name(call.kind));
  if (call.kind == CallKind::barrier || call.kind == CallKind::expect_same) return text;
  text += text_of(" of ", call.elements, " ", call.dtype == Dtype::u8 ? "bytes" : dtype_name(call.dtype));
  if (call.has_start != 0) text += " onto a start";
  if (call.kind == CallKind::broadcast) text += text_of(" of rank ", call.root);
  if (call.kind == CallKind::reduce_sum) text += text_of(" to rank ", call.root);
  return text;
}

bool is_same_call(const Call& a, const Call& b) {
  // How long a text of expect_same is may differ as the text may.
  const bool same_size = a.elements == b.elements || a.kind == CallKind::expect_same;
  return a.format == b.format && a.number == b.number && a.kind == b.kind && a.dtype == b.dtype &&
         a.has_start == b.has_start && same_size && a.root == b.root && a.work == b.work;
}

OpenCall::OpenCall(Transport& transport, std::chrono::milliseconds deadline, const Call& call)
    : transport_(transport), deadline_(deadline), call_(call) {
  if (const auto failure = transport_.failure()) throw_failure(*failure);
}

void OpenCall::wait(Transport::Ticket ticket, int other) const {
  switch (transport_.wait(ticket, Transport::Clock::now() + deadline_)) {
    case Transport::Outcome::done:
      return;
    case Transport::Outcome::late:
      end(ErrorCode::communication, text_of("rank ", other, " has not come within ", deadline_.count(), " ms"),
          text_of("see what rank ", other,
                  " does, or how it has ended; a rank that computes for longer between two calls needs a longer "
                  "CommunicatorOptions::deadline"));
    case Transport::Outcome::left:
      end(ErrorCode::communication, text_of("rank ", other, " has left: its communicator is gone"),
          text_of("all ranks make the same calls; see how rank ", other, " has ended"));
    case Transport::Outcome::failed:
      break;
  }
  transport_.abandon();
  throw_failure(
      transport_.failure().value_or(CommunicationFailure{other, ErrorCode::communication, "no reason known"}));
}

void OpenCall::compare(const Call& theirs, int other) const {
  if (is_same_call(call_, theirs)) return;
  Call alike = theirs;
  alike.work = call_.work;
  if (is_same_call(call_, alike)) {
    end(ErrorCode::different_calls,
        text_of("rank ", other,
                " makes the same call for other work: another training step, another cycle, or feeds of "
                "other shapes or flags"),
        "all ranks take the same steps from the same cycle on, with feeds of the same shapes; what is written, loaded "
        "or "
        "initialized is so on all of them");
  }
  const bool compares = call_.kind == CallKind::expect_same || theirs.kind == CallKind::expect_same;
  end(ErrorCode::different_calls, text_of("rank ", other, " makes another: ", call_text(theirs)),
      compares
          ? "one of them has something new to compare, such as a training step with feeds of other shapes or flags: "
            "all ranks take the same steps"
          : "all ranks make the same calls, with as many elements, in the same order");
}

std::string OpenCall::head() const {
  return text_of("rank ", transport_.rank(), " of ", transport_.size(), " in ", call_text(call_), ": ");
}

void OpenCall::end(ErrorCode code, const std::string& sentence, const std::string& advice) const {
  const std::string message = head() + sentence;
  transport_.fail({transport_.rank(), code, message});
  transport_.abandon();
  throw CommunicationError(error_text_of(message, hint(advice)), code);
}

void OpenCall::throw_failure(const CommunicationFailure& failure) const {
  const bool is_own = failure.rank == transport_.rank();
  const std::string who = is_own ? "this rank has failed: " : text_of("rank ", failure.rank, " has failed: ");
  throw CommunicationError(
      error_text_of(
          head(), who, failure.text,
          hint(
              "a communicator that has failed stays so: end the ranks, and start them again from the last checkpoint")),
      failure.code);
}

}  // namespace sectionflow
