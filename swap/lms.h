#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/export.h"
#include "device/device_spec.h"
#include "device/memory_limit.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// What Lms is told, by the names of its ancestor. A node's **level** is the length of the longest chain of nodes below
/// it, the **distance** of an edge the difference of the levels of its ends.
struct LmsOptions {
  /// An edge is swapped when its distance is larger. Negative: found by simulation. Never 0.
  int swapout_threshold = -1;
  /// Readers of one tensor share a swap-in while the level of each is at most this much above the one before. 0: a
  /// swap-in for each reader; negative: found by simulation. Sync modes 2 and 3 do not group.
  int swapin_groupby = -1;
  /// A swap-in begins after a node at least this many levels and one more before its reader; larger: earlier. Negative:
  /// found by simulation. Never 0.
  int swapin_ahead = -1;
  /// 0: copies beside computing; 1: what follows a swapped tensor waits for the swap-out; 2: a swap-in begins when all
  /// else that its reader needs is there; 3: both.
  int sync_mode = 0;
  /// Levels whose nodes are made to follow each other: numbers ("3") and ranges with both ends ("3:5", ":2", "-3:",
  /// "0:9:2"); negative bounds of ranges count from the last level.
  std::vector<std::string> serialization{};
  /// Serialises also every level whose nodes read and write more than this many GiB. 0: none.
  double serialization_by_size = 0;
  /// Logs more: with debug_level 1 every edge, with 2 every node.
  bool debug = false;
  int debug_level = 1;  ///< 1 or 2
  /// Names of the devices, for logs: a graph has one device, and its swaps go to the host.
  std::string cpu_device = "/cpu:0";
  std::string gpu_device{};

  /// Whether the graph trains: batch norms whose constant `is_training` says otherwise, and what only they feed, are
  /// neither swapped nor simulated.
  bool is_training = true;
  /// Nodes whose outputs stay; nodes that read what was never moved. By prefix of their names, by name of their op.
  std::set<std::string> excl_output_by_scopes{}, excl_output_by_types{};
  std::set<std::string> excl_input_by_scopes{}, excl_input_by_types{};
  /// Where one of a pair is given: only these nodes' outputs are swapped; only these read what was swapped in.
  std::set<std::string> incl_output_by_scopes{}, incl_output_by_types{};
  std::set<std::string> incl_input_by_scopes{}, incl_input_by_types{};
  /// Stands for an unknown first dimension where sizes are estimated.
  std::optional<std::int64_t> batch_size{};
  /// Where the session is going to compute, and its limit, as in SessionOptions: what the simulation may use. Without a
  /// device: best_device().
  std::optional<DeviceSpec> device{};
  MemoryLimit device_memory = 0;
  /// GiB that the simulation may use, whatever the device has.
  std::optional<double> autotune_gpu_mem{};
  /// Writes the distances of edges and the memory of each simulation into `plot_directory`.
  bool autotune_plot = false;
  std::string plot_directory = ".lms";
};

/// What Lms::run found and did.
struct LmsResult {
  bool already_edited = false;  ///< the graph has swaps: nothing was done
  bool not_necessary = false;   ///< the simulation fits without swaps: nothing was done

  int num_vertices = 0, num_edges = 0;
  int num_levels = 0;               ///< before serialization
  int num_serialized_levels = 0;    ///< after it; equal without
  std::size_t parameter_bytes = 0;  ///< of trainable variables
  std::string largest_op{};         ///< the node that reads and writes most
  std::size_t largest_op_bytes = 0;

  bool tuned = false;  ///< whether the parameters below were found by simulation
  bool fits = true;    ///< false: tuned, and even sync mode 3 does not fit the simulation
  int swapout_threshold = -1, swapin_groupby = -1, swapin_ahead = -1, sync_mode = 0;
  std::size_t budget_bytes = 0;          ///< of the simulation, trainable variables taken off
  std::size_t simulated_peak_bytes = 0;  ///< with the parameters found
  std::size_t host_bytes = 0;            ///< offloaded to the host at once, as simulated with the parameters used
  bool host_warning = false;             ///< the simulation needs more host memory than the limit

  int num_swap_outs = 0, num_swap_ins = 0;
  int num_prefetched = 0;  ///< swap-ins that begin after a control operation; others wait for what their reader needs
  std::size_t swap_out_bytes = 0, swap_in_bytes = 0;  ///< a cycle
  int num_trigger_edges = 0;                          ///< that tell when a swap-in begins, or what waits for a swap-out
  int num_serialization_edges = 0;                    ///< that make nodes of one level follow each other

  std::vector<std::string> log{};  ///< the lines that were logged
};

/// Whole-graph swapping by levels, as TensorFlow Large Model Support does it: tensors with a reader far away are moved
/// to the host and brought back before it. docs/tflms.md tells how to use it and in what it differs.
class Lms {
 public:
  /// Throws: ArgumentError (SF-E110) naming a parameter that means nothing.
  explicit Lms(LmsOptions options = {}, Where where = Where::here());

  /// Edits a graph that is complete, training operations included. A graph that Lms has edited is left as it is.
  /// Programs that sessions have compiled are compiled again. Where the graph has a section manager the log says that
  /// it refuses cycles from here on (SF-E210); a session may train the whole graph all the same. Throws: ArgumentError
  /// for scopes and types that the graph does not have (SF-E111), for an unknown batch size that is needed (SF-E112),
  /// where no parameters are found (SF-E113), and for a cycle; DataError for plots that cannot be written; DeviceError
  /// for a device that is not there and is to be asked. The graph is then unchanged.
  LmsResult run(Graph& graph, Where where = Where::here());

  const LmsOptions& options() const { return options_; }

 private:
  LmsOptions options_;
};

}  // namespace sectionflow
