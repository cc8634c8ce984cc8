#pragma once

#include <string>

#include "base/error.h"
#include "graph/ops/window.h"
#include "graph/option_fields.h"

namespace sectionflow {

// Options that several families have, as fields of a file: see graph/option_fields.h.

/// A DataFormat as the field "format".
template <class Fields, class Format>
void describe_format(Fields& fields, Format& format) {
  fields.choice("format", format, {{DataFormat::nhwc, "nhwc"}, {DataFormat::nchw, "nchw"}});
}

/// All of WindowSteps.
template <class Fields, class Steps>
void describe_steps(Fields& fields, Steps& steps) {
  fields("stride", steps.stride);
  fields("dilation", steps.dilation);
  fields.choice("padding", steps.padding,
                {{PaddingKind::same, "same"}, {PaddingKind::valid, "valid"}, {PaddingKind::fixed, "fixed"}});
  fields("before", steps.before);
  fields("after", steps.after);
  describe_format(fields, steps.format);
}

/// Throws: ArgumentError (starting with `label`) unless there is one number of each an axis.
inline void check_steps_of(const WindowSteps& steps, std::size_t rank, const std::string& label) {
  for (const auto* numbers : {&steps.stride, &steps.dilation, &steps.before, &steps.after}) {
    SF_CHECK(numbers->size() == rank, ArgumentError, label, " got ", numbers->size(),
             " numbers as stride, dilation or padding; wanted one an axis, ", rank);
  }
}

}  // namespace sectionflow
