#include "swap/lms.h"

#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>

#include "device/device.h"
#include "graph/op_def.h"
#include "swap/lms_environment.h"
#include "swap/lms_plots.h"
#include "swap/lms_rewrite.h"
#include "swap/lms_tuner.h"

namespace sectionflow {
namespace {

template <class... Parts>
void check_parameter(bool condition, const Parts&... parts) {
  SF_CHECK_CODE(condition, ArgumentError, ErrorCode::lms_parameter, "Lms: ", parts...);
}

void check_options(const LmsOptions& options) {
  check_parameter(options.swapout_threshold != 0,
                  "swapout_threshold is 0; wanted 1 or more, or a negative number to have it found");
  check_parameter(options.swapin_ahead != 0,
                  "swapin_ahead is 0; wanted 1 or more, or a negative number to have it found");
  check_parameter(options.sync_mode >= 0 && options.sync_mode <= 3, "sync_mode is ", options.sync_mode,
                  "; wanted 0 (none), 1 (swap-outs), 2 (swap-ins) or 3 (both)");
  check_parameter(options.debug_level == 1 || options.debug_level == 2, "debug_level is ", options.debug_level,
                  "; wanted 1 or 2");
  check_parameter(std::isfinite(options.serialization_by_size), "serialization_by_size is ",
                  options.serialization_by_size, "; wanted GiB, or 0 for none");
  check_parameter(!options.batch_size || *options.batch_size > 0, "batch_size is ", options.batch_size.value_or(0),
                  "; wanted 1 or more");
  check_parameter(
      !options.autotune_gpu_mem || (std::isfinite(*options.autotune_gpu_mem) && *options.autotune_gpu_mem > 0),
      "autotune_gpu_mem is ", options.autotune_gpu_mem.value_or(0), "; wanted GiB, more than 0");
  check_serialization(options.serialization);
}

const char* meaning_of(int sync_mode) {
  static constexpr const char* meanings[] = {"asynchronous swap-outs and swap-ins", "synchronous swap-outs",
                                             "synchronous swap-ins", "synchronous swap-outs and swap-ins"};
  return meanings[sync_mode];
}

/// One call of Lms::run.
class LmsRun {
 public:
  LmsRun(const LmsOptions& options, Graph& graph)
      : options_(options), graph_(&graph), log_(options.debug, options.debug_level) {}

  LmsResult run() {
    const auto start = std::chrono::steady_clock::now();
    if (is_lms_edited(*graph_)) {
      log_.info(0, "The graph has been updated before: nothing to do");
      result_.already_edited = true;
      return finish();
    }
    log_.info(0, "Editing the graph for large model support");
    // It may be meant for a session, which trains the whole graph whatever its sections are.
    if (graph_->has_section_manager()) {
      log_.info(0,
                "The graph has a section manager, which is going to refuse every cycle: sections swap by themselves");
    }
    LmsGraph view(*graph_, options_);
    LmsLevels levels = lms_levels(*graph_);
    describe(view, levels);
    // The edges of serialised levels are part of the graph from here on.
    if (serialize(view, levels)) {
      view = LmsGraph(*graph_, options_);
      levels = lms_levels(*graph_);
      log_.info(2, "levels after serialization: ", levels.count());
    }
    result_.num_serialized_levels = levels.count();
    dump(view, levels);
    edit(view, levels);
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    log_.info(0, "Edited in ", decimals(taken.count(), 1), " ms");
    return finish();
  }

 private:
  LmsResult finish() {
    result_.log = log_.take();
    return std::move(result_);
  }

  void describe(const LmsGraph& view, const LmsLevels& levels) {
    result_.num_vertices = view.num_nodes();
    result_.num_edges = view.num_edges();
    result_.num_levels = levels.count();
    result_.parameter_bytes = view.parameter_bytes();
    for (NodeId id = 0; id < view.num_nodes(); ++id) {
      if (!view.is_gpu(id) || view.op_bytes(id) <= result_.largest_op_bytes) continue;
      result_.largest_op_bytes = view.op_bytes(id);
      result_.largest_op = graph_->node(id).name();
    }
    log_.info(0, "The graph has ", result_.num_vertices, " vertices and ", result_.num_edges, " edges");
    log_.info(0, "The graph has ", decimals(static_cast<double>(result_.parameter_bytes) / (1024.0 * 1024.0)),
              " MiB of learning parameters");
    if (log_.shows(1)) {
      for (const Value& variable : graph_->values(kTrainableVariables))
        log_.detail(1, 2, variable.name(), ": ", view.bytes(variable), " bytes");
    }
    if (result_.largest_op_bytes > 0) {
      log_.info(0, "The largest GPU operation is ", result_.largest_op, " consuming ",
                gib_text(result_.largest_op_bytes), " GiB");
    }
    log_.info(0, "Original number of levels: ", result_.num_levels);
  }

  bool serialize(const LmsGraph& view, const LmsLevels& levels) {
    if (options_.serialization.empty() && options_.serialization_by_size == 0) return false;
    if (options_.serialization_by_size != 0)
      log_.info(2, "serializing levels of more than ", options_.serialization_by_size, " GiB");
    const std::vector<int> chosen = serialized_levels(options_, view, levels);
    const auto edges = serialization_edges(view, levels, chosen);
    for (const auto& edge : edges) {
      graph_->add_order_edge(Operation(graph_->node(edge.first)), Operation(graph_->node(edge.second)));
      log_.detail(1, 4, "serialize: ", graph_->node(edge.second).name(), " after ", graph_->node(edge.first).name());
    }
    std::string listed;
    for (int level : chosen) listed += text_of(listed.empty() ? "" : ", ", level);
    log_.info(2, "serialization: the highest level of an initial value is ", highest_initializer_level(*graph_, levels),
              "; levels: ", listed.empty() ? "none" : listed);
    result_.num_serialization_edges = static_cast<int>(edges.size());
    return true;
  }

  void dump(const LmsGraph& view, const LmsLevels& levels) {
    if (!log_.shows(1)) return;
    const std::vector<std::size_t> sizes = level_bytes(view, levels);
    std::vector<int> order(sizes.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return sizes[static_cast<std::size_t>(a)] > sizes[static_cast<std::size_t>(b)];
    });
    for (int level : order)
      log_.detail(1, 2, "level ", level, ": ", gib_text(sizes[static_cast<std::size_t>(level)]), " GiB");
    for (int level = 0; level < levels.count(); ++level) {
      for (NodeId id : levels.nodes[static_cast<std::size_t>(level)]) dump_node(view, level, id);
    }
  }

  void dump_node(const LmsGraph& view, int level, NodeId id) {
    Node& node = graph_->node(id);
    const std::string& device = view.is_gpu(id) ? options_.gpu_device : options_.cpu_device;
    log_.detail(1, 4, "level ", level, ": (", node.name(), ", ", node.op().name, ", ", device, ")");
    for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
      std::string readers;
      for (NodeId reader : view.consumers(id, output)) readers += text_of(" ", graph_->node(reader).name());
      log_.detail(2, 6, "output ", output, " ", node.output_types()[static_cast<std::size_t>(output)].text(),
                  " is read by:", readers.empty() ? " nothing" : readers);
    }
  }

  void check_batch_size() const {
    if (options_.batch_size) return;
    for (NodeId id = 0; id < graph_->num_nodes(); ++id) {
      Node& node = graph_->node(id);
      if (!node.op().is_placeholder()) continue;
      const Shape& shape = node.output_types()[0].shape;
      SF_CHECK_CODE(shape.rank() == 0 || shape.dims()[0] != kDynamic, ArgumentError, ErrorCode::lms_batch_size,
                    "Lms: parameters are to be found by simulation, and the batch size is not known: placeholder '",
                    node.name(), "' is ", node.output_types()[0].text(), Fact{"placeholder", node.place()},
                    hint("set LmsOptions::batch_size, or swapout_threshold, swapin_ahead and swapin_groupby"));
    }
  }

  double device_bytes() const {
    if (options_.autotune_gpu_mem) return *options_.autotune_gpu_mem * 1024.0 * 1024.0 * 1024.0;
    const DeviceSpec device = options_.device ? *options_.device : best_device();
    const std::size_t memory = make_device(device, 1)->total_memory();  // opens it to ask it
    return static_cast<double>(options_.device_memory.bytes_of(memory));
  }

  /// Sets the parameters in `result_`; returns whether the graph is to be edited.
  bool find_parameters(const LmsGraph& view, const LmsLevels& levels) {
    const LmsEnvironment environment = lms_environment();
    const double left = std::max(0.0, device_bytes() - static_cast<double>(view.parameter_bytes()));
    result_.budget_bytes = static_cast<std::size_t>(environment.memory_ratio * left);
    check_batch_size();
    log_.info(0, "Searching values for parameters: swapout_threshold, swapin_ahead, swapin_groupby");
    if (options_.autotune_plot) log_.info(0, "Figures are written to ", options_.plot_directory);
    log_.info(0, "[Simulator] Available memory for simulation: ", gib_text(result_.budget_bytes), " GiB (ratio ",
              environment.memory_ratio, ")");
    log_.info(0, "[Simulator] Available host memory: ", gib_text(environment.host_limit_bytes), " GiB");
    if (options_.batch_size) log_.info(0, "[Simulator] Batch size: ", *options_.batch_size);
    LmsSimulator simulator(view, levels, log_, result_.budget_bytes, environment.host_limit_bytes);
    const LmsTuning found = tune(options_, view, levels, simulator, log_);
    result_.tuned = true;
    result_.fits = found.fits;
    result_.swapout_threshold = found.swapout_threshold;
    result_.swapin_ahead = found.swapin_ahead;
    result_.swapin_groupby = found.swapin_groupby;
    result_.sync_mode = found.sync_mode;
    result_.not_necessary = found.not_necessary;
    take_simulation(found.simulation);
    if (found.not_necessary) log_.info(0, "Large model support is not necessary: the model fits without swapping");
    return !found.not_necessary;
  }

  void take_parameters(const LmsGraph& view, const LmsLevels& levels) {
    result_.swapout_threshold = options_.swapout_threshold;
    result_.swapin_ahead = options_.swapin_ahead;
    result_.swapin_groupby = options_.swapin_groupby;
    result_.sync_mode = options_.sync_mode;
    const LmsEnvironment environment = lms_environment();
    LmsLog quiet(false, 1);
    LmsSimulator simulator(view, levels, quiet, SIZE_MAX, environment.host_limit_bytes);
    take_simulation(simulator.simulate(parameters()));
  }

  void take_simulation(const LmsSimulation& simulation) {
    result_.simulated_peak_bytes = simulation.peak_bytes;
    result_.host_bytes = simulation.host_peak_bytes;
    result_.host_warning = simulation.host_warning;
  }

  LmsParameters parameters() const {
    return {.threshold = result_.swapout_threshold,
            .ahead = std::max(1, result_.swapin_ahead),
            .groupby = std::max(0, result_.swapin_groupby),
            .sync_mode = result_.sync_mode};
  }

  void log_configuration() {
    const bool ignores = result_.sync_mode >= 2;
    const char* ignored = ignores ? " (ignored in this sync_mode)" : "";
    if (result_.tuned) {
      log_.info(0, "Configuration found by simulation; on out-of-memory errors try the set found before:");
    } else {
      log_.info(0, "Configuration given by the user:");
    }
    log_.info(2, "sync_mode: ", result_.sync_mode, " (", meaning_of(result_.sync_mode), ")");
    log_.info(2, "swapout_threshold: ", result_.swapout_threshold);
    log_.info(2, "swapin_ahead: ", result_.swapin_ahead, ignored);
    log_.info(2, "swapin_groupby: ", result_.swapin_groupby, ignored);
    if (!result_.fits) log_.info(2, "no setting fits the simulation: sync_mode 3 needs least");
    if (result_.host_warning) {
      const std::size_t megabytes = (result_.host_bytes + (1U << 20) - 1) >> 20;
      log_.info(0, "The host memory may not suffice: set ", kHostLimitVariable, " to at least ", megabytes);
    }
  }

  void edit(const LmsGraph& view, const LmsLevels& levels) {
    if (wants_tuning(options_)) {
      if (!find_parameters(view, levels)) return;
    } else {
      take_parameters(view, levels);
    }
    log_configuration();
    if (options_.autotune_plot) {
      log_.info(0, "A histogram of distances was written to ",
                write_distance_histogram(options_.plot_directory, edge_distances(*graph_, levels)));
    }
    const auto tensors = swap_tensors(view, levels, parameters());
    if (tensors.empty()) log_that_nothing_is_swapped(view, levels);
    const LmsEdit edit = insert_lms_swaps(*graph_, view, levels, tensors, parameters(), log_);
    lms_levels(*graph_);  // a cycle would show here
    result_.num_swap_outs = edit.num_swap_outs;
    result_.num_swap_ins = edit.num_swap_ins;
    result_.num_prefetched = edit.num_prefetched;
    result_.num_trigger_edges = edit.num_trigger_edges;
    result_.swap_out_bytes = edit.swap_out_bytes;
    result_.swap_in_bytes = edit.swap_in_bytes;
    log_.info(0, "Added ", edit.num_swap_outs + edit.num_swap_ins, " operations to the graph: ", edit.num_swap_outs,
              " swap-outs (", gib_text(edit.swap_out_bytes), " GiB) and ", edit.num_swap_ins, " swap-ins (",
              gib_text(edit.swap_in_bytes), " GiB)");
    if (edit.num_swap_ins > 0 && !parameters().syncs_in()) {
      log_.info(0, edit.num_prefetched, " of ", edit.num_swap_ins, " swap-ins begin after a control operation");
    }
  }

  /// A threshold that was meant for a graph of more levels does nothing, which looks as if nothing were wrong.
  void log_that_nothing_is_swapped(const LmsGraph& view, const LmsLevels& levels) {
    std::map<int, int, std::greater<>> count_of;  // by distance
    for (const SwapTensor& tensor : swap_tensors(view, levels, {.threshold = 0})) {
      for (const SwapGroup& group : tensor.groups) {
        ++count_of[levels.distance(tensor.tensor.node().id(), group.first())];
      }
    }
    constexpr int kMostListed = 10;
    std::string distances;
    int listed = 0;
    for (const auto& [distance, count] : count_of) {
      if (++listed > kMostListed) {
        distances += ", and smaller ones";
        break;
      }
      distances += text_of(distances.empty() ? "" : ", ", distance, " (", count, count == 1 ? " edge)" : " edges)");
    }
    if (distances.empty()) {
      log_.info(0, "Nothing is swapped: the graph has no edge that may be");
    } else {
      log_.info(0, "Nothing is swapped: the graph has ", levels.count(),
                " levels, and no edge that may be swapped has a ", "distance above ", result_.swapout_threshold,
                "; the distances are ", distances);
    }
  }

  const LmsOptions& options_;
  Graph* graph_;
  LmsLog log_;
  LmsResult result_;
};

}  // namespace

Lms::Lms(LmsOptions options, Where where) : options_(std::move(options)) {
  call_at(where, [&] { check_options(options_); });
}

LmsResult Lms::run(Graph& graph, Where where) {
  return graph.build_at(where, [&] { return LmsRun(options_, graph).run(); });
}

}  // namespace sectionflow
