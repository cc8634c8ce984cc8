#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/node.h"

namespace SF_API sectionflow {

/// A tensor, or a kernel's scratch, that is alive at the fullest step.
struct LiveTensor {
  std::string name;
  std::string type;  ///< "f32[250,28,28,16]", or "scratch"
  std::size_t bytes = 0;
};

/// What is known of a program before its first step. Bytes are exact: a run measures the same.
struct ProgramReport {
  std::size_t budget_bytes = 0;  ///< of device memory
  /// Device memory that is taken beside the budget, by a GPU's context, code, libraries and recordings, and by other
  /// programs: as measured when the session was made, when the program was first executed, and when it was recorded. 0
  /// on the CPU.
  std::size_t context_bytes = 0;
  std::size_t persistent_bytes = 0;  ///< variables: parameters, slots, statistics
  std::size_t transient_bytes = 0;   ///< the rest of the peak: activations, gradients, feeds, fetches, scratch
  /// Both; the smallest budget under which the program runs. Where nothing fits the budget: the smallest under which
  /// its writer finds a program that runs, if minimum_is_exact; else the least that is known of.
  std::size_t planned_peak_bytes = 0;
  /// Of the budget behind the peak, so much is for the feeds of the next step, which a Trainer has copied while a step
  /// is executed; 0: the device is no GPU, or the budget has no room for all of them.
  std::size_t feeds_ahead_bytes = 0;
  /// Not where another tier is too small or decides what may be offloaded, nor for a backward half that begins with
  /// what a forward half has left: with that budget the forward half would leave other values.
  bool minimum_is_exact = true;
  /// Whether that much does. Where it is not exact, as behind a search, less may do too, by another plan.
  bool minimum_is_enough = true;
  std::size_t lower_bound_bytes = 0;      ///< persistent bytes and the largest sum of live bytes, at most the peak
  std::size_t border_bytes = 0;           ///< of the transient ones: the most that is kept between runs of sections
  std::size_t section_bytes = 0;          ///< of the transient ones: the most that one run needs for itself
  std::size_t host_budget_bytes = 0;      ///< hard limit on the bytes in host memory
  std::size_t host_persistent_bytes = 0;  ///< of variables whose home tier is the host
  std::size_t host_peak_bytes = 0;        ///< of all that lies there, variables and staging for the disk included
  std::size_t disk_budget_bytes = 0;      ///< size of the swap file
  std::size_t disk_persistent_bytes = 0;  ///< of variables whose home tier is the disk
  std::size_t disk_peak_bytes = 0;        ///< of all that lies there, variables included
  std::size_t bytes_out = 0;              ///< copied from device to host in a cycle
  std::size_t bytes_in = 0;               ///< copied from host to device, feeds not counted
  std::size_t disk_bytes_out = 0;         ///< written to disk in a cycle
  std::size_t disk_bytes_in = 0;          ///< read from disk in a cycle
  std::size_t bytes_communicated = 0;     ///< that the ranks get in common in a cycle: gradients and statistics
  double predicted_seconds = 0;           ///< of a cycle; 0: no profile was given
  bool fits = true;                       ///< every tier's peak is within its budget
  int num_steps = 0;
  int num_operations = 0;                ///< kernels launched in a cycle
  int recomputed_operations = 0;         ///< launches of a node after its first in the cycle, constants not counted
  std::string fullest_step;              ///< "conv2d_backward_filter 'gradients/...', section 1, backward 1"
  std::vector<LiveTensor> largest_live;  ///< at the fullest step, by falling size, at most eight
  int num_live = 0;                      ///< tensors alive at the fullest step
  /// The operation whose own operands and scratch take the most device memory, variables not counted; its label as
  /// name. With persistent_bytes, no plan of any kind needs less.
  LiveTensor largest_operation;
  bool batch_changes_largest = true;  ///< whether a batch of another size changes those bytes
  /// The most that the operands and scratch of one operation take with the variables that it reads and changes: no
  /// SessionOptions::swap_variables needs less.
  LiveTensor largest_with_variables;
  bool has_batch = true;         ///< whether data is fed whose first dimension may be smaller
  bool has_open_length = false;  ///< whether data is fed with another dimension that the graph leaves open, above 1
  /// Of the largest operation's own operands those that no batch changes, as far as the graph tells.
  std::size_t largest_fixed_bytes = 0;
  bool in_sections = false;      ///< whether an operation of it belongs to a section
  bool trains = true;            ///< whether it executes a training operation
  bool is_edited = false;        ///< whether Lms has put swapping operations into the graph
  bool forces_offloads = false;  ///< whether policies or swapping operations offload tensors whatever the budgets
  bool may_swap = false;         ///< whether fit_budget or insert_swaps has been called for the session
  bool initializes = false;      ///< whether it only gives variables their first values
  bool has_disk_homes = false;   ///< whether the disk may be the home tier of variables
  LiveTensor largest_on_host;    ///< the largest tensor that is offloaded to host memory or passes through it
  /// What is allowed but worth knowing, a line each; filled by those that write schedules.
  std::vector<std::string> notes;
  /// What to do if it does not fit; empty: the usual.
  std::string advice;
  /// What to do before all else where some tier is too small.
  std::string first_advice;

  /// A few lines for people.
  std::string text() const;
};

/// Throws the BudgetError that tells why the program does not fit, in at most 25 lines.
[[noreturn]] void throw_budget_error(const ProgramReport& report);

}  // namespace sectionflow
