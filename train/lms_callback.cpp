#include "train/lms_callback.h"

#include <utility>

namespace sectionflow {

LmsCallback::LmsCallback(Graph& graph, LmsOptions options, Where where) : graph_(graph), options_(std::move(options)) {
  call_at(where, [&] { Lms(options_, where); });
}

void LmsCallback::on_step_begin(const TrainerState& state, Feeds&) {
  if (result_) return;
  SF_CHECK(&state.session.graph() == &graph_, ArgumentError,
           "LmsCallback: its graph is not that of the trainer's session");
  SF_CHECK_CODE(!state.in_sections, ArgumentError, ErrorCode::swapped_graph,
                "LmsCallback: this trainer runs cycles over sections, which refuse a graph that Lms has edited",
                hint("leave the callback out: sections offload what does not fit; or make the Trainer with "
                     "manager.training_operations() as targets of the whole graph"));
  LmsOptions options = options_;
  if (!options.batch_size) options.batch_size = state.batch_size;
  if (!options.device) {
    options.device = state.session.options().device;
    options.device_memory = state.session.budget_bytes();
  }
  result_ = Lms(std::move(options)).run(graph_);
}

}  // namespace sectionflow
