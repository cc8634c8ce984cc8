#include "schedule/insert_rests.h"

#include <algorithm>

#include "base/error.h"

namespace sectionflow {
namespace {

/// A line to come before another.
struct Insertion {
  int place = 0;
  int turn = 0;  ///< among those of the place
  ScriptLine line;
};

/// At one place what leaves a tier comes before what enters it, since it frees room: first rests that move on to the
/// disk, then what leaves the device; then what comes back to it, then rests that merely come back from the disk. A
/// rest that takes two moves at one place takes them one after the other, before the next rest does, so that the host
/// memory on its way serves all of them in turn.
int turn_of(StepKind kind, bool both_moves_here) {
  switch (kind) {
    case StepKind::disk_write:
      return both_moves_here ? 1 : 0;
    case StepKind::copy_out:
      return 1;
    case StepKind::hold:
      return 2;
    case StepKind::copy_in:
      return 3;
    default:
      return both_moves_here ? 3 : 4;
  }
}

/// Between the halves of a cycle: what leaves belongs to the first, what comes back to the second.
bool leaves(StepKind kind) {
  return kind == StepKind::copy_out || kind == StepKind::disk_write;
}

int unused_number(const Script& script) {
  int number = 0;
  for (const ScriptLine& line : script.lines) number = std::max(number, line.rest + 1);
  for (const EntryValue& entry : script.entries) number = std::max(number, entry.rest + 1);
  return number;
}

void check(const Rest& rest, int num_lines) {
  const bool disk =
      !rest.on_disk || (rest.out <= rest.disk_out && rest.disk_out <= rest.disk_in && rest.disk_in <= rest.in);
  const bool hold = rest.hold < 0 || (rest.out <= rest.hold && rest.hold <= rest.in);
  SF_CHECK(0 <= rest.out && rest.out <= rest.in && rest.in <= num_lines && disk && hold, InternalError,
           "insert_rests: '", rest.value.name(), "' leaves before line ", rest.out, " and comes back before line ",
           rest.in, " of ", num_lines, " (hold ", rest.hold, ", disk ", rest.disk_out, " to ", rest.disk_in, ")");
}

std::vector<Insertion> insertions_of(const std::vector<Rest>& rests, int number, int num_lines) {
  std::vector<Insertion> insertions;
  const auto add = [&](int place, StepKind kind, Value value, int other_place) {
    ScriptLine line{.kind = kind, .fetched = value};
    if (kind != StepKind::hold) line.rest = number;
    insertions.push_back({place, turn_of(kind, place == other_place), line});
  };
  for (const Rest& rest : rests) {
    check(rest, num_lines);
    add(rest.out, StepKind::copy_out, rest.value, rest.disk_out);
    if (rest.on_disk) add(rest.disk_out, StepKind::disk_write, rest.value, rest.out);
    if (rest.hold >= 0) add(rest.hold, StepKind::hold, rest.value, -1);
    if (rest.on_disk) add(rest.disk_in, StepKind::disk_read, rest.value, rest.in);
    add(rest.in, StepKind::copy_in, rest.value, rest.disk_in);
    ++number;
  }
  std::stable_sort(insertions.begin(), insertions.end(), [](const Insertion& a, const Insertion& b) {
    return a.place != b.place ? a.place < b.place : a.turn < b.turn;
  });
  return insertions;
}

}  // namespace

Script insert_rests(const Script& script, const std::vector<Rest>& rests) {
  const int num_lines = static_cast<int>(script.lines.size());
  Script result{.passes = script.passes, .lines = {}, .entries = script.entries, .half = script.half};
  auto next = insertions_of(rests, unused_number(script), num_lines);
  auto insertion = next.begin();
  for (int place = 0; place <= num_lines; ++place) {
    for (; insertion != next.end() && insertion->place == place; ++insertion) {
      ScriptLine line = insertion->line;
      // What leaves does so at the end of what came before.
      const int beside = leaves(line.kind) && place > 0 ? place - 1 : std::min(place, num_lines - 1);
      line.pass = script.lines[static_cast<std::size_t>(beside)].pass;
      result.lines.push_back(line);
      if (place < script.half || (place == script.half && leaves(line.kind))) ++result.half;
    }
    if (place < num_lines) result.lines.push_back(script.lines[static_cast<std::size_t>(place)]);
  }
  return result;
}

}  // namespace sectionflow
