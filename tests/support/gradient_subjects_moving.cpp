#include "graph/nodes/arithmetic.h"
#include "graph/nodes/layout.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/parts.h"
#include "graph/ops/ranking.h"
#include "graph/ops/reduce.h"
#include "graph/ops/resize.h"
#include "graph/ops/scan.h"
#include "graph/ops/scatter.h"
#include "tests/support/gradient_subjects.h"

namespace sectionflow::testing_support {
namespace {

void reshape_subject(SubjectBuilder& b) {
  const Value x = b.source(b.shape(3));
  const Value flat = reshape(x, {-1});
  const Value rows = flatten(x);
  b.result(b.coin() ? flat : rows);
  if (b.coin()) b.result(reshape_like(flat * 2.0F, x));
  if (b.coin()) b.result(same_size(x, b.data({x.shape()[-1]}), {.axis = -1}));
}

void broadcast_subject(SubjectBuilder& b) {
  const Shape whole = b.shape(3);
  const Value x = b.source(b.broadcast_part(whole));
  b.result(b.coin() ? broadcast_to(x, whole) : broadcast_like(x, b.data(whole)));
}

void reduce_to_like_subject(SubjectBuilder& b) {
  const Shape whole = b.shape(3);
  b.result(reduce_to_like(b.source(whole), b.data(b.broadcast_part(whole))));
}

ReduceOptions any_axes(SubjectBuilder& b, int rank) {
  ReduceOptions options{.keep_dims = b.coin()};
  for (int axis = 0; axis < rank; ++axis) {
    if (b.coin()) options.axes.push_back(b.coin() ? axis : axis - rank);
  }
  return options;
}

void reduce_sum_subject(SubjectBuilder& b) {
  b.result(reduce_sum(b.source(b.shape(3)), any_axes(b, 3)));
}
void reduce_mean_subject(SubjectBuilder& b) {
  b.result(reduce_mean(b.source(b.shape(3)), any_axes(b, 3)));
}
void reduce_max_subject(SubjectBuilder& b) {
  b.result(reduce_max(b.source(b.shape(3), {.distinct = true}), any_axes(b, 3)));
}
void reduce_min_subject(SubjectBuilder& b) {
  b.result(reduce_min(b.source(b.shape(3), {.distinct = true}), any_axes(b, 3)));
}

void transpose_subject(SubjectBuilder& b) {
  const int rank = static_cast<int>(b.number(1, 4));
  std::vector<int> permutation;
  for (int axis = 0; axis < rank; ++axis) {
    permutation.insert(permutation.begin() + b.number(0, axis), b.coin() ? axis : axis - rank);
  }
  b.result(transpose(b.source(b.shape(rank)), permutation));
}

void concat_subject(SubjectBuilder& b) {
  const int axis = static_cast<int>(b.number(0, 2));
  std::vector<std::int64_t> dims = b.shape(3).dims();
  std::vector<Value> values;
  for (std::int64_t i = b.number(0, 2); i >= 0; --i) {
    dims[static_cast<std::size_t>(axis)] = b.number(1, 3);
    values.push_back(b.source(Shape(dims)));
  }
  b.result(concat(values, b.coin() ? axis : axis - 3));
}

void stack_subject(SubjectBuilder& b) {
  const Shape shape = b.shape(2);
  std::vector<Value> values;
  for (std::int64_t i = b.number(0, 2); i >= 0; --i) values.push_back(b.source(shape));
  b.result(stack(values, static_cast<int>(b.number(-3, 2))));
}

void split_subject(SubjectBuilder& b) {
  const int axis = static_cast<int>(b.number(0, 2));
  std::vector<std::int64_t> dims = b.shape(3).dims();
  const std::vector<std::int64_t> sizes = {b.number(1, 2), b.number(1, 3), b.number(1, 2)};
  const bool equal = b.coin();
  dims[static_cast<std::size_t>(axis)] = equal ? 6 : sizes[0] + sizes[1] + sizes[2];
  const Value x = b.source(Shape(dims));
  const std::vector<Value> parts = equal ? split(x, 3, axis) : split(x, sizes, axis);
  b.result(parts[0]);
  for (std::size_t i = 1; i < 3; ++i) {
    if (b.coin()) b.result(parts[i]);
  }
}

void slice_subject(SubjectBuilder& b) {
  const Shape shape = b.shape(3);
  SliceOptions options;
  for (std::int64_t dim : shape.dims()) {
    options.begin.push_back(b.number(0, dim - 1));
    options.size.push_back(b.coin() ? -1 : b.number(1, dim - options.begin.back()));
  }
  b.result(slice(b.source(shape), options));
}

void pad_subject(SubjectBuilder& b) {
  PadOptions options{.value = 0.5};
  for (int i = 0; i < 3; ++i) {
    options.before.push_back(b.number(0, 2));
    options.after.push_back(b.number(0, 2));
  }
  b.result(pad(b.source(b.shape(3, 3)), options));
}

void gather_subject(SubjectBuilder& b) {
  const std::int64_t rows = b.number(1, 4);
  const Value table = b.source(b.coin() ? Shape{rows} : Shape{rows, b.number(1, 3)});
  // Of a source, which the function reads besides, the look-up adds to a sum; of what nobody else reads it makes one.
  const Value looked_up = b.coin() ? table : table * 2.0F;
  b.result(gather(looked_up, b.whole_numbers(b.shape(static_cast<int>(b.number(0, 2))), 0, rows - 1)));
}

void cumsum_subject(SubjectBuilder& b) {
  const Value x = b.source(b.shape(3));
  b.result(cumsum(x, static_cast<int>(b.number(-3, 2)), {.exclusive = b.coin(), .reverse = b.coin()}));
}

void top_k_subject(SubjectBuilder& b) {
  const Shape shape = b.shape(2, 5);
  b.result(top_k(b.source(shape, {.distinct = true}), b.number(1, shape[-1])).values);
}

void take_along_subject(SubjectBuilder& b) {
  const Shape shape = b.shape(2);
  b.result(take_along(b.source(shape), b.whole_numbers({shape[0], b.number(1, 5)}, 0, shape[1] - 1)));
}

void scatter_add_subject(SubjectBuilder& b) {
  const std::int64_t rows = b.number(1, 4), count = b.number(1, 5), length = b.number(1, 3);
  const Value indices = b.whole_numbers({count}, 0, rows - 1);
  b.result(scatter_add(b.source({rows, length}), indices, b.source({count, length})));
}

/// Elements of x and updates differ by a tenth at least.
void scatter_max_subject(SubjectBuilder& b) {
  const std::int64_t rows = b.number(1, 4), count = b.number(1, 5);
  const Value all = b.source({rows + count, 2}, {.distinct = true});
  const std::vector<Value> parts = split(all, {rows, count}, 0);
  b.result(scatter_max(parts[0], b.whole_numbers({count}, 0, rows - 1), parts[1]));
}

void resize_subject(SubjectBuilder& b) {
  const Resize2dOptions options{.height = b.number(1, 5),
                                .width = b.number(1, 5),
                                .method = b.coin() ? ResizeMethod::nearest : ResizeMethod::bilinear,
                                .align_corners = b.coin(),
                                .format = b.coin() ? DataFormat::nhwc : DataFormat::nchw};
  b.result(resize2d(b.source(b.shape(4)), options));
}

}  // namespace

void add_moving_subjects(std::vector<GradientSubject>& subjects) {
  const GradientSubject all[] = {{"reshape", reshape_subject},
                                 {"broadcast", broadcast_subject},
                                 {"reduce_to_like", reduce_to_like_subject},
                                 {"reduce_sum", reduce_sum_subject},
                                 {"reduce_mean", reduce_mean_subject},
                                 {"reduce_max", reduce_max_subject},
                                 {"reduce_min", reduce_min_subject},
                                 {"transpose", transpose_subject},
                                 {"concat", concat_subject},
                                 {"stack", stack_subject},
                                 {"split", split_subject},
                                 {"slice", slice_subject},
                                 {"pad", pad_subject},
                                 {"gather", gather_subject},
                                 {"cumsum", cumsum_subject},
                                 {"top_k", top_k_subject},
                                 {"take_along", take_along_subject},
                                 {"scatter_add", scatter_add_subject},
                                 {"scatter_max", scatter_max_subject},
                                 {"resize", resize_subject}};
  subjects.insert(subjects.end(), std::begin(all), std::end(all));
}

}  // namespace sectionflow::testing_support
