#include "fit/fate_reason.h"

#include "base/bytes.h"
#include "base/error.h"
#include "graph/graph.h"
#include "swap/swap_notes.h"

namespace sectionflow {
namespace {

std::string steps_text(int steps) {
  return text_of(steps, steps == 1 ? " step" : " steps");
}

/// What else could be done with a tensor that stays.
std::string alternatives(const TensorFacts& facts) {
  const std::string copies = "copying it out and back " + milliseconds(facts.copy_seconds);
  return facts.may_be_again ? "computing it again would take " + milliseconds(facts.again_seconds) + ", " + copies
                            : "it cannot be computed again, " + copies + " would be";
}

std::string kept_reason(const TensorFacts& facts, const ExplainedTensor& tensor) {
  const std::string stretch = text_of("from ", facts.from, " until ", facts.until, ", ", steps_text(facts.steps));
  if (!tensor.is_live_at_peak) return text_of("stays ", stretch, "; not there at the peak, which it could not lower");
  return text_of("stays ", stretch, ", and at the peak; ", alternatives(facts));
}

/// "0.41 ms for 4.79 MiB over 12.3 ms".
std::string bargain(const TensorFacts& facts, const ExplainedTensor& tensor) {
  return text_of(milliseconds(tensor.seconds), " for ", bytes_text(tensor.bytes), " over ", milliseconds(facts.seconds),
                 tensor.saved_at_peak > 0 ? ", the peak among them" : "");
}

}  // namespace

void TensorFacts::add_alternatives(const OpDef& op, std::size_t bytes, const StepTimes& times) {
  may_be_again = op.is_placeholder() || (op.recompute != Recompute::once && !op.is_update() && !op.is_variable());
  copy_seconds = times.transfer(StepKind::copy_out, bytes) + times.transfer(StepKind::copy_in, bytes);
}

const char* fate_name(Fate fate) {
  switch (fate) {
    case Fate::scratch:
      return "scratch";
    case Fate::passing:
      return "passing";
    case Fate::in_parts:
      return "in parts";
    case Fate::kept:
      return "kept";
    case Fate::computed_again:
      return "computed again";
    case Fate::on_host:
      return "in host memory";
    case Fate::on_disk:
      return "on disk";
  }
  throw InternalError("fate_name: no fate");
}

Fate fate_of(const TensorFacts& facts, const ExplainedTensor& tensor) {
  if (facts.is_scratch) return Fate::scratch;
  if (facts.parts > 1) return Fate::in_parts;
  if (tensor.times_to_disk > 0 || facts.has_disk_home) return Fate::on_disk;
  if (tensor.times_to_host > 0 || facts.has_host_home) return Fate::on_host;
  if (tensor.times_again > 0) return Fate::computed_again;
  return facts.steps > 0 ? Fate::kept : Fate::passing;
}

std::string reason_of(const TensorFacts& facts, const ExplainedTensor& tensor) {
  switch (tensor.fate) {
    case Fate::scratch:
      return facts.is_of_ranks ? "workspace of all that ranks have in common, there for all of it"
                               : "workspace of a kernel, there for one step at a time";
    case Fate::passing:
      return "read at once and dropped";
    case Fate::in_parts:
      return text_of("never there as a whole: one of ", facts.parts, " parts at a time, from ", facts.from, " until ",
                     facts.until);
    case Fate::kept:
      return kept_reason(facts, tensor);
    case Fate::computed_again:
      return text_of("dropped ", tensor.times_again > 1 ? text_of(tensor.times_again, " times, for longest ") : "",
                     "behind ", facts.from, ", written anew for ", facts.until, ": ", bargain(facts, tensor));
    case Fate::on_host:
      if (facts.has_host_home) return "a variable whose home tier is host memory: " + bargain(facts, tensor);
      [[fallthrough]];
    case Fate::on_disk:
      if (facts.has_disk_home) return "a variable whose home tier is the disk: " + bargain(facts, tensor);
      if (facts.from.empty()) return "copied out and not back: " + bargain(facts, tensor);
      return text_of("away from ", facts.from, " until ", facts.until, ": copies of ", bargain(facts, tensor),
                     facts.may_be_again ? "; computing it again would take " + milliseconds(facts.again_seconds)
                                        : "; it cannot be computed again");
  }
  throw InternalError("reason_of: no fate");
}

std::string step_name(const Step& step, const Graph& graph) {
  const std::string name = "'" + graph.node(step.node).name() + "'";
  switch (step.kind) {
    case StepKind::feed:
      return "the feed of " + name;
    case StepKind::compute:
      return step.parts > 1 ? text_of("part ", step.part + 1, " of ", step.parts, " of ", name) : name;
    case StepKind::fetch:
      return "the fetch of " + name;
    case StepKind::hold:
      return "the end of " + name;
    case StepKind::copy_out:
      return "the copy out of " + name;
    case StepKind::copy_in:
      return "the copy in of " + name;
    case StepKind::disk_write:
    case StepKind::disk_read:
      break;
  }
  return "the disk's copy of " + name;
}

}  // namespace sectionflow
