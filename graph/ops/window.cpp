#include "graph/ops/window.h"

#include <algorithm>
#include <cstdint>

#include "base/checked_arithmetic.h"
#include "base/error.h"
#include "graph/nodes/window.h"
#include "graph/option_fields.h"

namespace sectionflow {

void check_format(DataFormat format, const std::string& label) {
  OptionChecker fields(label);
  describe_format(fields, format);
}

ImageDims image_dims(const Shape& shape, DataFormat format) {
  const int first = format == DataFormat::nhwc ? 1 : 2;
  const auto begin = shape.dims().begin() + first;
  return {.batch = shape[0],
          .channels = format == DataFormat::nhwc ? shape[-1] : shape[1],
          .sizes = {begin, begin + (shape.rank() - 2)}};
}

Shape image_shape(const ImageDims& dims, DataFormat format) {
  std::vector<std::int64_t> shape = {dims.batch};
  if (format == DataFormat::nchw) shape.push_back(dims.channels);
  shape.insert(shape.end(), dims.sizes.begin(), dims.sizes.end());
  if (format == DataFormat::nhwc) shape.push_back(dims.channels);
  return Shape(std::move(shape));
}

std::string image_text(std::size_t rank, DataFormat format) {
  const std::string sizes = rank == 2 ? "H, W" : "D, H, W";
  return format == DataFormat::nhwc ? text_of("[N, ", sizes, ", C]") : text_of("[N, C, ", sizes, "]");
}

std::string numbers_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::int64_t number : numbers) text += text_of(text.empty() ? "{" : ", ", number);
  return text + "}";
}

void check_window(const std::vector<std::int64_t>& window, const WindowSteps& steps, const std::string& label) {
  for (const auto* numbers : {&steps.stride, &steps.dilation, &steps.before, &steps.after}) {
    SF_CHECK(numbers->size() == window.size(), ArgumentError, label, " got ", numbers->size(),
             " numbers as stride, dilation or padding; wanted one an axis, ", window.size());
  }
  const auto wanted = [](const std::vector<std::int64_t>& numbers, std::int64_t least) {
    return std::all_of(numbers.begin(), numbers.end(), [least](std::int64_t number) { return number >= least; });
  };
  const auto check_most = [&](const char* what, const std::vector<std::int64_t>& numbers) {
    SF_CHECK(std::all_of(numbers.begin(), numbers.end(), [](std::int64_t number) { return number <= INT32_MAX; }),
             ArgumentError, label, ": ", what, " ", numbers_text(numbers), "; wanted at most ", INT32_MAX,
             " along each axis");
  };
  check_most("stride", steps.stride);
  check_most("dilation", steps.dilation);
  check_most("kernel or window of", window);
  check_most("padding before of", steps.before);
  check_most("padding after of", steps.after);
  SF_CHECK(wanted(steps.stride, 1), ArgumentError, label, ": stride ", numbers_text(steps.stride),
           "; wanted 1 or more along each axis");
  SF_CHECK(wanted(steps.dilation, 1), ArgumentError, label, ": dilation ", numbers_text(steps.dilation),
           "; wanted 1 or more along each axis");
  SF_CHECK(wanted(window, 1), ShapeError, label, ": kernel or window of ", numbers_text(window),
           "; wanted sizes that are known, 1 or more along each axis");
  SF_CHECK(wanted(steps.before, 0) && wanted(steps.after, 0), ArgumentError, label, ": padding of ",
           numbers_text(steps.before), " before and ", numbers_text(steps.after),
           " after; wanted 0 or more along each axis");
}

namespace {

/// What check_window asks of each number, of what follows from several.
void check_reach(const WindowAxis& axis, const std::string& label) {
  SF_CHECK(axis.extent() <= INT32_MAX && axis.before + axis.after <= INT32_MAX, ArgumentError, label, ": kernel of ",
           axis.extent(), axis.dilation > 1 ? " (with its dilation)" : "", " and padding of ", axis.before, " and ",
           axis.after, "; wanted at most ", INT32_MAX, " of either along each axis");
}

}  // namespace

std::vector<WindowAxis> window_axes(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& window,
                                    const WindowSteps& steps, const std::string& label) {
  check_window(window, steps, label);
  std::vector<WindowAxis> axes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    WindowAxis& axis = axes.emplace_back(WindowAxis{.size = sizes[i],
                                                    .window = window[i],
                                                    .stride = steps.stride[i],
                                                    .dilation = steps.dilation[i],
                                                    .before = steps.before[i],
                                                    .after = steps.after[i]});
    SF_CHECK(axis.size != kDynamic, ShapeError, label,
             ": the sizes of images must be known; only the batch may be left to the feed");
    if (steps.padding == PaddingKind::same) {
      axis.out = axis.size == 0 ? 0 : (axis.size - 1) / axis.stride + 1;
      const std::int64_t covered = checked_add((axis.out - 1) * axis.stride, axis.extent(), label);
      const std::int64_t total = std::max<std::int64_t>(0, covered - axis.size);
      axis.before = total / 2;
      axis.after = total - axis.before;
      check_reach(axis, label);
      continue;
    }
    const std::int64_t padded = checked_add(axis.size, axis.before + axis.after, label);
    SF_CHECK(axis.extent() <= padded, ShapeError, label, ": kernel of ", axis.extent(),
             axis.dilation > 1 ? " (with its dilation)" : "", " is larger than the padded image of ", padded,
             "; try Padding::same");
    axis.out = (padded - axis.extent()) / axis.stride + 1;
    check_reach(axis, label);
  }
  return axes;
}

std::vector<WindowAxis> image_axes(const Shape& x, const std::vector<std::int64_t>& window, const WindowSteps& steps,
                                   const std::string& label) {
  const auto axes_in = [&](DataFormat format) {
    return window_axes(image_dims(x, format).sizes, window, steps, label);
  };
  try {
    return axes_in(steps.format);
  } catch (Error& error) {
    bool fits = true;
    try {
      (void)axes_in(other_format(steps.format));
    } catch (const Error&) {
      fits = false;
    }
    error.add_fact("hint", format_hint(steps.format, fits).text);
    throw;
  }
}

DataFormat other_format(DataFormat format) {
  return format == DataFormat::nhwc ? DataFormat::nchw : DataFormat::nhwc;
}

Fact format_hint(DataFormat format, bool fits) {
  if (!fits) return {"hint", {}};
  return hint("as an image of DataFormat::", format == DataFormat::nhwc ? "nchw" : "nhwc",
              " it would fit: if it is one, say so in .format");
}

std::int64_t num_taps(const std::vector<WindowAxis>& axes, const std::string& label) {
  std::int64_t taps = 1;
  for (const WindowAxis& axis : axes) taps = checked_multiply(taps, axis.window, label);
  return taps;
}

std::vector<std::int64_t> outputs_of(const std::vector<WindowAxis>& axes) {
  std::vector<std::int64_t> outputs;
  for (const WindowAxis& axis : axes) outputs.push_back(axis.out);
  return outputs;
}

}  // namespace sectionflow
