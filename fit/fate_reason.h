#pragma once

#include <algorithm>
#include <string>

#include "fit/explain.h"
#include "graph/op_def.h"
#include "schedule/schedule.h"
#include "swap/step_times.h"

namespace sectionflow {

/// What a tensor's fate and its reason are made of.
struct TensorFacts {
  bool is_scratch = false;
  bool is_of_ranks = false;     ///< scratch of all that communicates
  bool has_host_home = false;   ///< a variable that is copied in where it is used
  bool has_disk_home = false;   ///< the same, read from the disk before
  bool may_be_again = false;    ///< its operation may be executed again, or it is fed
  double again_seconds = 0;     ///< what that operation takes
  double copy_seconds = 0;      ///< out to the host and back
  int parts = 1;                ///< it is there in so many, one after the other
  int steps = 0;                ///< of the longest stretch without it, or without a use of it
  double seconds = 0;           ///< how long that stretch is predicted to take
  std::string from{}, until{};  ///< the steps at its ends

  /// Of what could be done instead of keeping it.
  double least_seconds() const { return may_be_again ? std::min(again_seconds, copy_seconds) : copy_seconds; }
  void add_alternatives(const OpDef& op, std::size_t bytes, const StepTimes& times);
};

Fate fate_of(const TensorFacts& facts, const ExplainedTensor& tensor);

/// One line: seconds against bytes. The tensor's counts, seconds and fate must be there.
std::string reason_of(const TensorFacts& facts, const ExplainedTensor& tensor);

/// "'head/fc1'", "the feed of 'images'", "the copy in of 'head/fc1'".
std::string step_name(const Step& step, const Graph& graph);

}  // namespace sectionflow
