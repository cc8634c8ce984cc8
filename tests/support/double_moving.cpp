// Operations that move elements or add those of many places.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "graph/nodes/layout.h"
#include "graph/nodes/parts.h"
#include "graph/nodes/reduce.h"
#include "graph/nodes/scan.h"
#include "graph/nodes/scatter.h"
#include "graph/ops/layout.h"
#include "graph/ops/parts.h"
#include "graph/ops/reduce.h"
#include "graph/ops/resize.h"
#include "tests/support/broadcast_reference.h"
#include "tests/support/double_graph.h"
#include "tests/support/positions.h"

namespace sectionflow::testing_support {
namespace {

/// y with, at every place, the element of x at `from(place)`.
template <class From>
std::vector<Doubles> moved_from(const DoubleRequest& r, const From& from) {
  Doubles y(r.y_count());
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = r.in(0)[number_of(from(position_of(static_cast<std::int64_t>(i), r.y_shape())), r.shape(0))];
  }
  return {y};
}

std::vector<Doubles> repeated_in_double(const DoubleRequest& r) {
  Doubles y(r.y_count());
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = r.in(0)[source_index(static_cast<std::int64_t>(i), r.y_shape(), r.shape(0))];
  }
  return {y};
}

std::vector<Doubles> reduced_to_like_in_double(const DoubleRequest& r) {
  Doubles y(r.y_count());
  for (std::size_t i = 0; i < r.in(0).size(); ++i) {
    y[source_index(static_cast<std::int64_t>(i), r.shape(0), r.y_shape())] += r.in(0)[i];
  }
  return {y};
}

std::vector<Doubles> reduced_in_double(const DoubleRequest& r) {
  const auto& options = r.node.options<ReduceNodeOptions>();
  const std::vector<bool> reduced = reduced_axes(options.reduce, r.shape(0).rank(), "reference");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double start = options.reduction == Reduction::max ? -kInfinity : kInfinity;
  Doubles y(r.y_count(), is_choice(options.reduction) ? start : 0);
  for (std::size_t i = 0; i < r.in(0).size(); ++i) {
    const Position from = position_of(static_cast<std::int64_t>(i), r.shape(0));
    Position to;
    for (std::size_t axis = 0; axis < from.size(); ++axis) {
      if (!reduced[axis]) to.push_back(from[axis]);
      if (reduced[axis] && options.reduce.keep_dims) to.push_back(0);
    }
    double& result = y[number_of(to, r.y_shape())];
    const double x = r.in(0)[i];
    result = options.reduction == Reduction::max   ? std::max(result, x)
             : options.reduction == Reduction::min ? std::min(result, x)
                                                   : result + x;
  }
  const double count = static_cast<double>(r.in(0).size()) / static_cast<double>(y.size());
  if (options.reduction == Reduction::mean) {
    for (double& sum : y) sum /= count;
  }
  return {y};
}

std::vector<Doubles> transposed_in_double(const DoubleRequest& r) {
  const std::vector<int> axes =
      normalized_permutation(r.node.options<TransposeOptions>().permutation, r.shape(0).rank(), "reference");
  return moved_from(r, [&](const Position& to) {
    Position from(to.size());
    for (std::size_t i = 0; i < to.size(); ++i) from[static_cast<std::size_t>(axes[i])] = to[i];
    return from;
  });
}

std::vector<Doubles> sliced_in_double(const DoubleRequest& r) {
  return moved_from(r, [&](Position place) {
    for (std::size_t i = 0; i < place.size(); ++i) place[i] += r.node.options<SliceOptions>().begin[i];
    return place;
  });
}

std::vector<Doubles> padded_in_double(const DoubleRequest& r) {
  const auto& options = r.node.options<PadOptions>();
  Doubles y(r.y_count(), options.value);
  for (std::size_t i = 0; i < r.in(0).size(); ++i) {
    Position place = position_of(static_cast<std::int64_t>(i), r.shape(0));
    for (std::size_t axis = 0; axis < place.size(); ++axis) place[axis] += options.before[axis];
    y[number_of(place, r.y_shape())] = r.in(0)[i];
  }
  return {y};
}

std::vector<Doubles> joined_in_double(const DoubleRequest& r) {
  const auto& options = r.node.options<ConcatOptions>();
  const auto axis = static_cast<std::size_t>(normalized_axis(options.axis, r.y_shape().rank(), "reference"));
  Doubles y(r.y_count());
  std::int64_t first = 0;
  for (std::size_t k = 0; k < r.inputs.size(); ++k) {
    for (std::size_t i = 0; i < r.in(k).size(); ++i) {
      Position place = position_of(static_cast<std::int64_t>(i), r.shape(k));
      if (options.is_stack) {
        place.insert(place.begin() + static_cast<std::ptrdiff_t>(axis), first);
      } else {
        place[axis] += first;
      }
      y[number_of(place, r.y_shape())] = r.in(k)[i];
    }
    first += options.is_stack ? 1 : r.shape(k)[static_cast<int>(axis)];
  }
  return {y};
}

std::vector<Doubles> split_in_double(const DoubleRequest& r) {
  const int axis = normalized_axis(r.node.options<SplitNodeOptions>().axis, r.shape(0).rank(), "reference");
  std::vector<Doubles> parts;
  std::int64_t first = 0;
  for (const TensorType& type : r.node.output_types()) {
    Doubles part(static_cast<std::size_t>(type.shape.num_elements()));
    for (std::size_t i = 0; i < part.size(); ++i) {
      Position place = position_of(static_cast<std::int64_t>(i), type.shape);
      place[static_cast<std::size_t>(axis)] += first;
      part[i] = r.in(0)[number_of(place, r.shape(0))];
    }
    first += type.shape[axis];
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<Doubles> gathered_in_double(const DoubleRequest& r) {
  const std::size_t row = r.in(0).size() / static_cast<std::size_t>(r.shape(0)[0]);
  Doubles y(r.y_count());
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = r.in(0)[static_cast<std::size_t>(r.in(1)[i / row]) * row + i % row];
  }
  return {y};
}

/// The elements along one axis that make up element `i` of the result, with their weights.
std::vector<std::pair<std::int64_t, double>> resize_weights(std::int64_t i, std::int64_t in, std::int64_t out,
                                                            const Resize2dOptions& options) {
  const auto pixel = static_cast<double>(i), from = static_cast<double>(in), to = static_cast<double>(out);
  double place = (pixel + 0.5) * from / to - 0.5;
  if (options.align_corners) place = out == 1 ? 0 : pixel * (from - 1) / (to - 1);
  const auto inside = [in](double index) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(index), 0, in - 1);
  };
  if (options.method == ResizeMethod::nearest) return {{inside(std::floor(place + 0.5 + 1e-9)), 1.0}};
  const double low = std::floor(place);
  return {{inside(low), 1 - (place - low)}, {inside(low + 1), place - low}};
}

std::vector<Doubles> resized_in_double(const DoubleRequest& r) {
  const auto& options = r.node.options<Resize2dOptions>();
  const int axis = options.format == DataFormat::nhwc ? 1 : 2;
  const Shape &x = r.shape(0), &y_shape = r.y_shape();
  Doubles y(r.y_count());
  for (std::size_t i = 0; i < y.size(); ++i) {
    Position place = position_of(static_cast<std::int64_t>(i), y_shape);
    const auto rows = resize_weights(place[axis], x[axis], y_shape[axis], options);
    const auto columns = resize_weights(place[axis + 1], x[axis + 1], y_shape[axis + 1], options);
    for (const auto& [row, row_weight] : rows) {
      for (const auto& [column, column_weight] : columns) {
        place[axis] = row;
        place[axis + 1] = column;
        y[i] += row_weight * column_weight * r.in(0)[number_of(place, x)];
      }
    }
  }
  return {y};
}

std::vector<Doubles> argmax_in_double(const DoubleRequest& r) {
  const auto columns = static_cast<std::size_t>(r.shape(0)[-1]);
  Doubles y(r.y_count());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto row = r.in(0).begin() + static_cast<std::ptrdiff_t>(i * columns);
    y[i] = static_cast<double>(std::max_element(row, row + static_cast<std::ptrdiff_t>(columns)) - row);
  }
  return {y};
}

std::vector<Doubles> running_sums_in_double(const DoubleRequest& r) {
  const auto& options = r.node.options<CumsumNodeOptions>();
  const int axis = normalized_axis(options.axis, r.y_shape().rank(), "reference");
  Doubles y(r.y_count());
  for (std::size_t i = 0; i < y.size(); ++i) {
    Position place = position_of(static_cast<std::int64_t>(i), r.y_shape());
    const std::int64_t own = place[static_cast<std::size_t>(axis)];
    for (std::int64_t from = 0; from < r.y_shape()[axis]; ++from) {
      const bool comes_before = options.sums.reverse ? from > own : from < own;
      if (!comes_before && (from != own || options.sums.exclusive)) continue;
      place[static_cast<std::size_t>(axis)] = from;
      y[i] += r.in(0)[number_of(place, r.y_shape())];
    }
  }
  return {y};
}

std::vector<Doubles> largest_in_double(const DoubleRequest& r) {
  const auto columns = static_cast<std::size_t>(r.shape(0)[-1]);
  const auto k = static_cast<std::size_t>(r.y_shape()[-1]);
  std::vector<Doubles> found(2);
  for (std::size_t row = 0; row < r.in(0).size(); row += columns) {
    std::vector<std::pair<double, double>> order;
    for (std::size_t c = 0; c < columns; ++c) order.emplace_back(-r.in(0)[row + c], static_cast<double>(c));
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < k; ++i) {
      found[0].push_back(-order[i].first);
      found[1].push_back(order[i].second);
    }
  }
  return found;
}

std::vector<Doubles> taken_along_in_double(const DoubleRequest& r) {
  const auto columns = static_cast<std::size_t>(r.shape(0)[-1]), count = static_cast<std::size_t>(r.y_shape()[-1]);
  Doubles y(r.y_count());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = r.in(0)[i / count * columns + static_cast<std::size_t>(r.in(1)[i])];
  return {y};
}

std::vector<Doubles> scattered_in_double(const DoubleRequest& r) {
  Doubles y = r.in(0);
  const std::size_t length = y.size() / static_cast<std::size_t>(r.shape(0)[0]);
  for (std::size_t i = 0; i < r.in(2).size(); ++i) {
    double& to = y[static_cast<std::size_t>(r.in(1)[i / length]) * length + i % length];
    const bool is_sum = r.node.options<ScatterOptions>().scattering == Scattering::add;
    to = is_sum ? to + r.in(2)[i] : std::max(to, r.in(2)[i]);
  }
  return {y};
}

}  // namespace

void add_moving_double_rules(DoubleRules& rules) {
  rules["broadcast_to"] = rules["broadcast_like"] = repeated_in_double;
  rules["reduce_to_like"] = reduced_to_like_in_double;
  rules["reduce"] = reduced_in_double;
  rules["transpose"] = transposed_in_double;
  rules["slice"] = sliced_in_double;
  rules["pad"] = padded_in_double;
  rules["concat"] = rules["stack"] = joined_in_double;
  rules["split"] = split_in_double;
  rules["gather"] = gathered_in_double;
  rules["cumsum"] = running_sums_in_double;
  rules["top_k"] = largest_in_double;
  rules["take_along"] = taken_along_in_double;
  rules["scatter"] = scattered_in_double;
  rules["resize2d"] = resized_in_double;
  rules["argmax"] = argmax_in_double;
}

}  // namespace sectionflow::testing_support
