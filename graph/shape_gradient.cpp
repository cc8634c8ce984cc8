#include "graph/shape_gradient.h"

#include <utility>

#include "base/error.h"

namespace sectionflow {

OpDef gradient_by_shape(std::string name, OptionsDescription options, TypeRule y_of) {
  return {.name = std::move(name),
          .inputs = 2,
          .options = std::move(options),
          .infer =
              [y_of = std::move(y_of)](const ShapeRequest& r) {
                const TensorType y = y_of(r, r.inputs[1]);
                SF_CHECK(may_agree(r.inputs[0], y), ShapeError, r.label, " got dy ", r.inputs[0].text(), "; wanted ",
                         y.text());
                return std::vector{r.inputs[1]};
              },
          .uses =
              [](std::size_t, HostBooleans) {
                return std::vector{InputUse::data, InputUse::shape_only};
              }};
}

}  // namespace sectionflow
