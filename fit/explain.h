#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/export.h"
#include "fit/budget_frontier.h"
#include "fit/fit_budget.h"
#include "runtime/session.h"

namespace SF_API sectionflow {

/// What becomes of a tensor between the operation that makes it and its last reader.
enum class Fate {
  scratch,         ///< a kernel's workspace: there for one step; that of sums over ranks, for all of these
  passing,         ///< read at once, then dropped
  in_parts,        ///< never there as a whole: one part after the other is
  kept,            ///< stays in device memory until somebody reads it later
  computed_again,  ///< dropped and written again, by its operation or as a feed or constant
  on_host,         ///< copied to host memory and back
  on_disk          ///< copied by way of the host to disk and back
};
/// "computed again", "in host memory", ...
const char* fate_name(Fate fate);

/// One tensor of a program.
struct ExplainedTensor {
  /// One stay in the memory of one tier, from the step that writes it to the last that needs it.
  struct Stay {
    const char* tier = "";  ///< "device memory", "host memory", "disk"
    int first_step = 0, last_step = 0;
    double begin_seconds = 0, end_seconds = 0;  ///< predicted, from the step's start
  };
  std::string name{};     ///< of scratch: of the operation
  std::string type{};     ///< "f32[250,28,28,16]", or "scratch"
  std::string section{};  ///< "section 2", "outside of sections"
  std::size_t bytes = 0;
  Fate fate = Fate::passing;
  int times_again = 0;  ///< how often it is written anew after the first time
  int times_to_host = 0, times_to_disk = 0;
  double seconds = 0;  ///< that writing it anew and its copies take, each by itself
  /// Of what is kept: what would take its place, its operation once more or two copies, whichever is quicker.
  double spared_seconds = 0;
  double byte_seconds_saved = 0;  ///< bytes times the time for which device memory is free of them in between
  bool is_live_at_peak = false;   ///< in device memory at the fullest step
  /// Its bytes, where it is not in device memory at the fullest step, but was before and is again afterwards.
  std::size_t saved_at_peak = 0;
  std::string reason{};  ///< what becomes of it and why, in a line
  std::vector<Stay> stays{};
};

/// Bytes that are in device memory at the fullest step.
struct PeakPart {
  std::string name{}, type{};
  std::size_t bytes = 0;
  std::string why{};  ///< "the step reads it", "waits since 'a' for 'b', 31 steps"
};

/// The fullest step. Variables, parts and what is left between them come to the peak.
struct ExplainedPeak {
  int step = 0;
  std::string at{};                 ///< the step, with its section and pass
  std::size_t peak_bytes = 0;       ///< of device memory, as planned
  std::size_t variables_bytes = 0;  ///< there whatever runs
  std::vector<PeakPart> parts{};    ///< by falling size
  std::size_t unused_bytes = 0;     ///< what alignment and gaps between tensors take
};

/// What a little more and a little less device memory would do, by fit_budget.
struct MemoryPrice {
  /// 64 MiB, or a sixteenth of what `here`'s budget leaves beside the variables if that is less.
  std::size_t step_bytes = 0;
  BudgetPoint here{};  ///< in the session's budget, or in what the step takes with all memory if that is less
  BudgetPoint more{}, less{};
  /// "at 600 MiB: 37.5 MiB more would save 1.3 %, 37.5 MiB less would cost 0.9 %", and what a MiB is worth there.
  std::string text() const;
};

/// What a program does with its tensors, and why. Bytes are exact; times are what a profile predicts.
struct Explanation {
  std::vector<ExplainedTensor> tensors{};  ///< all of them, in the order in which they are made
  ExplainedPeak peak{};
  std::size_t budget_bytes = 0;  ///< of device memory
  double seconds = 0;            ///< of the step
  double again_seconds = 0;      ///< of it: for what is written anew
  double copy_seconds = 0;       ///< of all copies between tiers, each by itself
  double stall_seconds = 0;      ///< of the step: what copies add
  bool is_nominal = true;        ///< times are those of a nominal machine, not measured ones
  std::optional<MemoryPrice> price{};
  std::optional<BudgetFrontier> frontier{};
  std::string no_price{};  ///< why there is neither, where they were asked for

  /// For people: sums, the fullest step, the largest tensors that are not merely passing, price and frontier.
  std::string text(std::size_t most_tensors = 20) const;
  std::string json() const;
};

/// What explain is asked for beside what becomes of each tensor.
struct ExplainOptions {
  /// As fit_budget was told, or would be: profile (absent: that by which fit_budget plans for the session, of a
  /// checkpoint too), what is allowed, effort, and whom planning tells of its progress.
  FitBudgetOptions fit{};
  bool price = false;   ///< plans for two more budgets; takes as long as fit_budget does
  int num_budgets = 0;  ///< of the frontier, 2 to 1000; 0: none is planned
};

/// Explains the program that the session planned or ran last, whoever planned it; nothing is run or changed. Price and
/// frontier are those of fit_budget for the same operations: the same for all strategies of the whole graph; a cycle
/// over sections keeps the order of its halves. There are none for graphs that Lms has edited and for backward halves.
/// Throws: ArgumentError for a session that has planned and run nothing, for a number of budgets that is none, and
/// (SF-E010) for what fit_budget refuses.
Explanation explain(Session& session, const ExplainOptions& options = {}, Where where = Where::here());

}  // namespace sectionflow
