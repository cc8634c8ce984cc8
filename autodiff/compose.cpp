#include "autodiff/compose.h"

#include "base/error.h"
#include "graph/op_def.h"

namespace sectionflow {

void check_own_statistics(const GradientRequest& request, int statistics, std::string_view forward, int first,
                          int count) {
  const Node& origin = request.input(statistics).node();
  bool own = origin.op().name == forward;
  for (int i = 0; own && i < count; ++i) own = origin.inputs()[static_cast<std::size_t>(i)] == request.input(first + i);
  SF_CHECK_CODE(own, ArgumentError, ErrorCode::no_gradient_rule, request.node.label(), ": its statistics '",
                request.input(statistics).name(), "' are not those that a ", forward, " of '",
                request.input(first).name(), "' left", hint("let gradients() make this operation"));
}

}  // namespace sectionflow
