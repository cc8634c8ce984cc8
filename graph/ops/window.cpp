#include "graph/ops/window.h"

#include <algorithm>

#include "base/checked_arithmetic.h"
#include "base/error.h"
#include "graph/nodes/window.h"

namespace sectionflow {

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
    SF_CHECK(axis.size != kDynamic, ShapeError, label, ": the sizes of images must be known; only the batch may be -1");
    (void)checked_multiply(axis.window, axis.dilation);
    if (steps.padding == PaddingKind::same) {
      axis.out = axis.size == 0 ? 0 : (axis.size - 1) / axis.stride + 1;
      const std::int64_t covered = checked_add((axis.out - 1) * axis.stride, axis.extent());
      const std::int64_t total = std::max<std::int64_t>(0, covered - axis.size);
      axis.before = total / 2;
      axis.after = total - axis.before;
      continue;
    }
    const std::int64_t padded = checked_add(axis.size, checked_add(axis.before, axis.after));
    SF_CHECK(axis.extent() <= padded, ShapeError, label, ": kernel of ", axis.extent(),
             axis.dilation > 1 ? " (with its dilation)" : "", " is larger than the padded image of ", padded,
             "; try Padding::same");
    axis.out = (padded - axis.extent()) / axis.stride + 1;
  }
  return axes;
}

std::vector<std::int64_t> outputs_of(const std::vector<WindowAxis>& axes) {
  std::vector<std::int64_t> outputs;
  for (const WindowAxis& axis : axes) outputs.push_back(axis.out);
  return outputs;
}

}  // namespace sectionflow
