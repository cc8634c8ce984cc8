#include "swap/lms_rewrite.h"

#include <algorithm>

#include "graph/op_def.h"
#include "graph/ops/identities.h"
#include "graph/traversal.h"
#include "swap/lms_log.h"
#include "swap/lms_sync.h"

namespace sectionflow {
namespace {

constexpr const char* kOutName = "lms/swapout_";
constexpr const char* kInName = "lms/swapin_";

/// "block/conv:0" as a part of a name: "block_conv_0".
std::string tensor_name(Value tensor) {
  std::string name = text_of(tensor.node().name(), ":", tensor.output());
  std::replace(name.begin(), name.end(), '/', '_');
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

class Rewriter {
 public:
  Rewriter(Graph& edited, const LmsGraph& graph, const LmsLevels& levels, const LmsParameters& parameters, LmsLog& log)
      : edited_(&edited), graph_(&graph), levels_(&levels), parameters_(parameters), log_(&log) {}

  void insert(const SwapTensor& tensor) {
    const Value source = tensor.tensor;
    const auto group = edited_->enter_group(source.node().group());
    const auto branch = edited_->enter_branch(source.node().branch());
    // From the root: an open scope of the user's does not change names.
    const Value offloaded = swap_out(source, text_of("/", kOutName, tensor_name(source)));
    ++edit_.num_swap_outs;
    edit_.swap_out_bytes += graph_->bytes(source);
    log_->detail(1, 2, "swap-out of ", source.name(), " ", source.type().text(), ": ", offloaded.name());
    for (const SwapGroup& readers : tensor.groups) {
      const Value back = swap_in(offloaded, text_of("/", kInName, tensor_name(source)));
      ++edit_.num_swap_ins;
      edit_.swap_in_bytes += graph_->bytes(source);
      log_->detail(1, 2, "swap-in of ", source.name(), " ", source.type().text(), ": ", back.name());
      for (NodeId reader : readers.destinations) connect(edited_->node(reader), source, back);
      swap_ins_.push_back({source.node().id(), offloaded.node().id(), back.node().id(), readers.first()});
    }
  }

  LmsEdit time_all() {
    const int before = edited_->num_edits();
    LmsSync sync(*edited_, *graph_, *levels_, *log_);
    if (!parameters_.syncs_in()) {
      for (const SwapIn& swap : swap_ins_) {
        const auto trigger = find_trigger(*graph_, *levels_, swap.source, swap.reader, parameters_.ahead);
        if (trigger) {
          log_->control_edge(*edited_, *levels_, *trigger, swap.back, swap.reader);
          sync.wait(*trigger, swap.back);
          ++edit_.num_prefetched;
        } else {
          log_->detail(1, 2, "no control operation for ", edited_->node(swap.back).name(), " at ahead ",
                       parameters_.ahead, ": synchronised");
          sync.swap_in(swap.back);
        }
      }
    }
    if (parameters_.syncs_out()) sync.all_swap_outs();
    if (parameters_.syncs_in()) sync.all_swap_ins();
    edit_.num_trigger_edges = edited_->num_edits() - before;
    return edit_;
  }

 private:
  struct SwapIn {
    NodeId source, offloaded, back, reader;
  };

  /// Every input slot that carried the tensor.
  void connect(Node& reader, Value source, Value back) {
    for (std::size_t i = 0; i < reader.inputs().size(); ++i) {
      if (reader.inputs()[i] != source) continue;
      edited_->replace_input(reader, static_cast<int>(i), back);
      log_->detail(1, 4, reader.name(), " input ", i, " reads ", back.name());
    }
  }

  Graph* edited_;
  const LmsGraph* graph_;
  const LmsLevels* levels_;
  LmsParameters parameters_;
  LmsLog* log_;
  LmsEdit edit_;
  std::vector<SwapIn> swap_ins_;
};

}  // namespace

LmsEdit insert_lms_swaps(Graph& edited, const LmsGraph& graph, const LmsLevels& levels,
                         const std::vector<SwapTensor>& tensors, const LmsParameters& parameters, LmsLog& log) {
  Rewriter rewriter(edited, graph, levels, parameters, log);
  for (const SwapTensor& tensor : tensors) rewriter.insert(tensor);
  return rewriter.time_all();
}

bool is_lms_edited(const Graph& graph) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op().movement == Movement::out && node.name().find(kOutName) != std::string::npos) return true;
  }
  return false;
}

}  // namespace sectionflow
