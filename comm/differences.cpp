#include "comm/differences.h"

#include "base/error.h"

namespace sectionflow {
namespace {

constexpr std::size_t kMostOfALine = 160;

/// The line that begins at `text`, which is advanced behind it.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return line;
}

/// The part of a line in which it differs from another, for a message: what both begin with may be long.
std::string quoted(std::string_view line, std::string_view other) {
  std::size_t same = 0;
  while (same < line.size() && same < other.size() && line[same] == other[same]) ++same;
  const std::size_t begin = same > kMostOfALine / 2 ? same - kMostOfALine / 2 : 0;
  const std::string_view part = line.substr(begin, kMostOfALine);
  return text_of("'", begin > 0 ? "..." : "", part, begin + part.size() < line.size() ? "..." : "", "'");
}

}  // namespace

std::string comparable_text(std::string_view what, std::string_view text) {
  std::string whole(what);
  // It is one line.
  for (char& c : whole) {
    if (c == '\n') c = ' ';
  }
  whole += '\n';
  whole += text;
  return whole;
}

std::uint64_t text_digest(std::string_view text) {
  // FNV-1a of 64 bits.
  std::uint64_t digest = 0xcbf29ce484222325;
  for (const char c : text) digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return digest;
}

int first_that_differs(std::span<const Call> calls) {
  for (std::size_t rank = 1; rank < calls.size(); ++rank) {
    if (calls[rank].digest != calls[0].digest || calls[rank].elements != calls[0].elements)
      return static_cast<int>(rank);
  }
  return -1;
}

void throw_difference(const OpenCall& open, std::string_view first, std::string_view theirs, int other) {
  const std::string head =
      text_of("rank ", open.transport().rank(), " of ", open.transport().size(), " in ", call_text(open.call()), ": ");
  const std::string_view what = take_line(first), their_what = take_line(theirs);
  if (what != their_what) {
    throw CommunicationError(error_text_of(head, "rank ", other, " compares ", their_what, ", rank 0 ", what,
                                           hint("all ranks make the same calls in the same order")),
                             ErrorCode::different_texts);
  }
  int line = 1;
  std::string_view ours, other_line;
  for (; !first.empty() || !theirs.empty(); ++line) {
    ours = take_line(first);
    other_line = take_line(theirs);
    if (ours != other_line) break;
  }
  throw CommunicationError(error_text_of(head, what, " of rank ", other, " is another than rank 0's: line ", line,
                                         " is ", quoted(other_line, ours), ", rank 0's ", quoted(ours, other_line),
                                         hint("all ranks build the same graph and give the same options and shapes")),
                           ErrorCode::different_texts);
}

}  // namespace sectionflow
