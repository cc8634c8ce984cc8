#include "schedule/insert_offloads.h"

#include <algorithm>

#include "base/error.h"

namespace sectionflow {
namespace {

bool leaves(StepKind kind) {
  return kind == StepKind::copy_out || kind == StepKind::disk_write;
}

void check(const Offload& offload, int num_instructions) {
  const bool disk = !offload.on_disk || (offload.out <= offload.disk_out && offload.disk_out <= offload.disk_in &&
                                         offload.disk_in <= offload.in);
  const bool hold = offload.hold < 0 || (offload.out <= offload.hold && offload.hold <= offload.in);
  SF_CHECK(0 <= offload.out && offload.out <= offload.in && offload.in <= num_instructions && disk && hold,
           InternalError, "insert_offloads: '", offload.value.name(), "' is copied out before instruction ",
           offload.out, " and is copied back before instruction ", offload.in, " of ", num_instructions, " (hold ",
           offload.hold, ", disk ", offload.disk_out, " to ", offload.disk_in, ")");
}

std::vector<Insertion> insertions_of(const std::vector<Offload>& offloads, int number, int num_instructions) {
  std::vector<Insertion> insertions;
  const auto add = [&](int place, StepKind kind, Value value, int other_place) {
    Instruction instruction{.kind = kind, .fetched = value};
    if (kind != StepKind::hold) instruction.offload = number;
    insertions.push_back({place, turn_of(kind, place == other_place), instruction});
  };
  for (const Offload& offload : offloads) {
    check(offload, num_instructions);
    add(offload.out, StepKind::copy_out, offload.value, offload.disk_out);
    if (offload.on_disk) add(offload.disk_out, StepKind::disk_write, offload.value, offload.out);
    if (offload.hold >= 0) add(offload.hold, StepKind::hold, offload.value, -1);
    if (offload.on_disk) add(offload.disk_in, StepKind::disk_read, offload.value, offload.in);
    add(offload.in, StepKind::copy_in, offload.value, offload.disk_in);
    ++number;
  }
  return insertions;
}

}  // namespace

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

int unused_offload(const InstructionList& list) {
  int number = 0;
  for (const Instruction& instruction : list.instructions) number = std::max(number, instruction.offload + 1);
  for (const EntryValue& entry : list.entries) number = std::max(number, entry.offload + 1);
  return number;
}

InstructionList insert_offloads(const InstructionList& list, const std::vector<Offload>& offloads) {
  return with_insertions(list,
                         insertions_of(offloads, unused_offload(list), static_cast<int>(list.instructions.size())));
}

InstructionList with_insertions(const InstructionList& list, std::vector<Insertion> insertions) {
  std::stable_sort(insertions.begin(), insertions.end(), [](const Insertion& a, const Insertion& b) {
    return a.place != b.place ? a.place < b.place : a.turn < b.turn;
  });
  const int num_instructions = static_cast<int>(list.instructions.size());
  InstructionList result{.passes = list.passes, .instructions = {}, .entries = list.entries, .half = list.half};
  auto next = insertions.begin();
  for (int place = 0; place <= num_instructions; ++place) {
    for (; next != insertions.end() && next->place == place; ++next) {
      Instruction& instruction = result.instructions.emplace_back(next->instruction);
      // What leaves does so at the end of what came before.
      const int beside = leaves(instruction.kind) && place > 0 ? place - 1 : std::min(place, num_instructions - 1);
      instruction.pass = list.instructions[static_cast<std::size_t>(beside)].pass;
      if (place < list.half || (place == list.half && leaves(instruction.kind))) ++result.half;
    }
    if (place < num_instructions) result.instructions.push_back(list.instructions[static_cast<std::size_t>(place)]);
  }
  return result;
}

}  // namespace sectionflow
