// What the libraries of CUDA are told of our ops: descriptors in plain numbers, read by plain loops as the libraries'
// documentation says they read them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "graph/nodes/convolution.h"
#include "graph/nodes/window.h"
#include "kernels/cuda/library/convolution_numbers.h"
#include "kernels/cuda/library/gemm.h"
#include "tests/support/gpu_blocks.h"

namespace sectionflow {
namespace {

using gpu::column_gemm;
using gpu::convolution_numbers;
using gpu::ConvolutionNumbers;
using gpu::Gemm;
using gpu::MatrixTranspose;

using Numbers = std::vector<float>;  // small integers: sums of their products are exact in any order

Numbers some_numbers(std::int64_t count, std::uint32_t seed) {
  Numbers numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    numbers.push_back(static_cast<float>(seed >> 24 & 7) - 3);
  }
  return numbers;
}

// ---- matrices ----

/// op(A) op(B) as BLAS defines it: element (r, c) of a matrix lies at r + c * leading dimension.
Numbers blas(const Gemm& g, const Numbers& first, const Numbers& second) {
  Numbers result(static_cast<std::size_t>(g.batch * g.result.num_elements()));
  const std::int64_t inner = g.first.transposed ? g.first.rows : g.first.columns;
  const auto at = [](const gpu::ColumnMatrix& m, std::int64_t matrix, std::int64_t row, std::int64_t column) {
    if (m.transposed) std::swap(row, column);
    EXPECT_TRUE(row < m.rows && column < m.columns);
    return static_cast<std::size_t>(matrix * m.num_elements() + row + column * m.rows);
  };
  for (std::int64_t m = 0; m < g.batch; ++m) {
    for (std::int64_t r = 0; r < g.result.rows; ++r) {
      for (std::int64_t c = 0; c < g.result.columns; ++c) {
        float sum = 0;
        for (std::int64_t k = 0; k < inner; ++k) sum += first[at(g.first, m, r, k)] * second[at(g.second, m, k, c)];
        result[at(g.result, m, r, c)] = sum;
      }
    }
  }
  return result;
}

/// y = a b, all row by row.
Numbers product(const MatmulProblem& p, const Numbers& a, const Numbers& b) {
  Numbers y;
  for (std::int64_t m = 0; m < p.batch; ++m) {
    const float* left = a.data() + m * p.rows * p.inner;
    const float* right = b.data() + m * p.inner * p.columns;
    for (std::int64_t r = 0; r < p.rows; ++r) {
      for (std::int64_t c = 0; c < p.columns; ++c) {
        float sum = 0;
        for (std::int64_t k = 0; k < p.inner; ++k) {
          sum += (p.transpose_a ? left[k * p.rows + r] : left[r * p.inner + k]) *
                 (p.transpose_b ? right[c * p.inner + k] : right[k * p.columns + c]);
        }
        y.push_back(sum);
      }
    }
  }
  return y;
}

TEST(LibraryGemm, IsOurProductReadColumnByColumn) {
  for (std::int64_t batch : {1, 3}) {
    for (bool transpose_a : {false, true}) {
      for (bool transpose_b : {false, true}) {
        for (const auto& [rows, inner, columns] :
             {std::array<std::int64_t, 3>{4, 3, 5}, {1, 7, 2}, {6, 1, 1}, {1, 1, 1}, {2, 9, 9}}) {
          const MatmulProblem p{.batch = batch,
                                .rows = rows,
                                .inner = inner,
                                .columns = columns,
                                .transpose_a = transpose_a,
                                .transpose_b = transpose_b};
          const Numbers a = some_numbers(batch * rows * inner, 1), b = some_numbers(batch * inner * columns, 2);
          const auto gemm = column_gemm(p);
          ASSERT_TRUE(gemm.has_value());
          EXPECT_EQ(blas(*gemm, b, a), product(p, a, b)) << batch << " " << rows << " " << inner << " " << columns;
        }
      }
    }
  }
}

TEST(LibraryGemm, TakesNothingEmptyAndNothingTooLarge) {
  const MatmulProblem small{.batch = 2, .rows = 3, .inner = 4, .columns = 5};
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  for (std::int64_t MatmulProblem::*number : {&MatmulProblem::rows, &MatmulProblem::inner, &MatmulProblem::columns}) {
    MatmulProblem p = small;
    p.*number = 0;
    EXPECT_FALSE(column_gemm(p));
    p.*number = most;
    EXPECT_TRUE(column_gemm(p));
    p.*number = most + 1;
    EXPECT_FALSE(column_gemm(p));
  }
  MatmulProblem p = small;
  p.batch = 0;
  EXPECT_FALSE(column_gemm(p));
  p.batch = 65535;
  EXPECT_TRUE(column_gemm(p));
  p.batch = 65536;
  EXPECT_FALSE(column_gemm(p));
}

// ---- transposed copies ----

template <class Element>
std::vector<Element> transposed(const MatrixTranspose& shape, const std::vector<Element>& x) {
  std::vector<Element> y(x.size(), Element{99});
  const gpu::TransposeTiles<Element> tiles{shape, x.data(), y.data()};
  testing_support::emulate_blocks(
      tiles.launch_shape(), [&](gpu::HostThread& thread) { tiles(thread); }, 7);
  return y;
}

TEST(LibraryTranspose, TurnsTilesOverAndBack) {
  for (bool channels_last : {true, false}) {
    for (const auto& [taps, channels, filters] : {std::array<std::int64_t, 3>{9, 3, 5},
                                                  {1, 33, 65},
                                                  {27, 2, 40},
                                                  {4, 1, 1},
                                                  {1, 1, 6},
                                                  {35, 2, 1},
                                                  {1, 1, 1}}) {
      const MatrixTranspose copy = gpu::filter_copy(taps, channels, filters, channels_last);
      Numbers x(static_cast<std::size_t>(taps * channels * filters));
      std::iota(x.begin(), x.end(), 0.0F);
      Numbers wanted(x.size());
      for (std::int64_t t = 0; t < taps; ++t) {
        for (std::int64_t c = 0; c < channels; ++c) {
          for (std::int64_t f = 0; f < filters; ++f) {
            const std::int64_t place = channels_last ? (f * taps + t) * channels + c : (f * channels + c) * taps + t;
            wanted[static_cast<std::size_t>(place)] = x[static_cast<std::size_t>((t * channels + c) * filters + f)];
          }
        }
      }
      const Numbers y = transposed(copy, x);
      EXPECT_EQ(y, wanted) << taps << " " << channels << " " << filters;
      EXPECT_EQ(transposed(copy.inverse(), y), x);
      const std::vector<std::uint16_t> short_ones(x.begin(), x.end()), turned = transposed(copy, short_ones);
      EXPECT_TRUE(std::equal(turned.begin(), turned.end(), wanted.begin()))
          << taps << " " << channels << " " << filters;
      EXPECT_EQ(transposed(copy.inverse(), turned), short_ones);
      EXPECT_EQ(copy.is_identity(), wanted == x) << taps << " " << channels << " " << filters;
      EXPECT_EQ(copy.inverse().is_identity(), wanted == x);
    }
  }
}

// ---- convolutions ----

/// Calls visit(x's place, w's place, y's place) for each product of a convolution of one to three axes.
using VisitProduct = std::function<void(std::int64_t, std::int64_t, std::int64_t)>;

/// Each product as our ops define it: w [window..., C / groups, F].
void visit_ours(const ConvolutionGeometry& g, const VisitProduct& visit) {
  const std::int64_t channels = g.channels / g.groups, filters = g.filters / g.groups;
  std::int64_t x_pixels = 1, y_pixels = 1;
  for (const WindowAxis& axis : g.axes) x_pixels *= axis.size, y_pixels *= axis.out;
  const auto image_place = [&](std::int64_t n, std::int64_t pixel, std::int64_t c, std::int64_t pixels,
                               std::int64_t all_channels) {
    return g.format == DataFormat::nhwc ? (n * pixels + pixel) * all_channels + c
                                        : (n * all_channels + c) * pixels + pixel;
  };
  for (std::int64_t out = 0; out < y_pixels; ++out) {
    for (std::int64_t tap = 0; tap < g.num_taps(); ++tap) {
      std::int64_t from = 0, scale = 1, o = out, t = tap;
      bool inside = true;
      for (auto axis = g.axes.rbegin(); axis != g.axes.rend(); ++axis) {
        const std::int64_t i = o % axis->out * axis->stride - axis->before + t % axis->window * axis->dilation;
        inside = inside && i >= 0 && i < axis->size;
        from += i * scale;
        scale *= axis->size;
        o /= axis->out;
        t /= axis->window;
      }
      if (!inside) continue;
      for (std::int64_t n = 0; n < g.batch; ++n) {
        for (std::int64_t f = 0; f < g.filters; ++f) {
          for (std::int64_t c = 0; c < channels; ++c) {
            visit(image_place(n, from, f / filters * channels + c, x_pixels, g.channels),
                  (tap * channels + c) * g.filters + f, image_place(n, out, f, y_pixels, g.filters));
          }
        }
      }
    }
  }
}

/// The strides of dimensions N, C, sizes of a tensor whose channels lie last, or behind N.
std::vector<std::int64_t> strides_of(const std::vector<int>& dims, bool channels_last) {
  std::vector<std::size_t> order(dims.size());  // outermost first
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (channels_last) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  std::vector<std::int64_t> strides(dims.size());
  std::int64_t stride = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    strides[*axis] = stride;
    stride *= dims[*axis];
  }
  return strides;
}

/// Calls visit(index) for each index into dims.
void for_each_index(const std::vector<int>& dims, const std::function<void(const std::vector<std::int64_t>&)>& visit) {
  std::vector<std::int64_t> index(dims.size(), 0);
  while (true) {
    visit(index);
    std::size_t axis = dims.size();
    while (axis > 0 && ++index[axis - 1] == dims[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

/// Each product as cuDNN defines its cross-correlation of these descriptors.
void visit_cudnn(const ConvolutionNumbers& n, const VisitProduct& visit) {
  const auto x_strides = strides_of(n.x, n.channels_last), y_strides = strides_of(n.y, n.channels_last),
             w_strides = strides_of(n.filter, n.channels_last);
  const auto place = [](const std::vector<std::int64_t>& index, const std::vector<std::int64_t>& strides) {
    return std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0});
  };
  for_each_index(n.y, [&](const std::vector<std::int64_t>& out) {
    for_each_index(n.filter, [&](const std::vector<std::int64_t>& tap) {
      const std::int64_t filters = n.filter[0] / n.groups;
      if (tap[0] != out[1]) return;
      std::vector<std::int64_t> from = {out[0], out[1] / filters * n.filter[1] + tap[1]};
      for (std::size_t i = 0; i < n.stride.size(); ++i) {
        from.push_back(out[i + 2] * n.stride[i] - n.padding[i] + tap[i + 2] * n.dilation[i]);
        if (from.back() < 0 || from.back() >= n.x[i + 2]) return;
      }
      visit(place(from, x_strides), place(tap, w_strides), place(out, y_strides));
    });
  });
}

struct ConvolutionCase {
  Shape x, w;
  ConvolutionOptions options;
  bool taken = true;
};

std::vector<ConvolutionCase> convolution_cases() {
  const auto two = [](std::array<std::int64_t, 2> stride, std::array<std::int64_t, 2> dilation, Padding padding,
                      std::int64_t groups, DataFormat format) {
    return ConvolutionOptions{.steps = window_steps(stride, dilation, padding, format), .groups = groups};
  };
  const auto three = [](std::array<std::int64_t, 3> stride, Padding3d padding, std::int64_t groups, DataFormat format) {
    return ConvolutionOptions{.steps = window_steps(stride, std::array<std::int64_t, 3>{1, 2, 1}, padding, format),
                              .groups = groups};
  };
  constexpr auto nhwc = DataFormat::nhwc, nchw = DataFormat::nchw;
  return {
      {{2, 5, 6, 3}, {3, 3, 3, 4}, two({1, 1}, {1, 1}, Padding::same, 1, nhwc)},
      {{2, 3, 5, 6}, {3, 3, 3, 4}, two({1, 1}, {1, 1}, Padding::same, 1, nchw)},
      {{1, 7, 9, 4}, {3, 2, 2, 6}, two({2, 1}, {1, 2}, Padding(2, 1), 2, nhwc)},
      {{1, 4, 7, 9}, {3, 2, 2, 6}, two({2, 1}, {1, 2}, Padding(2, 1), 2, nchw)},
      {{2, 5, 5, 4}, {3, 3, 1, 8}, two({2, 2}, {1, 1}, Padding::same, 4, nhwc)},
      {{2, 4, 5, 5}, {1, 1, 4, 3}, two({2, 1}, {1, 1}, Padding::valid, 1, nchw)},
      {{1, 3, 4, 5, 2}, {2, 2, 3, 1, 4}, three({1, 1, 2}, Padding3d(1, 0, 1), 2, nhwc)},
      {{1, 2, 3, 4, 5}, {2, 2, 3, 1, 4}, three({1, 1, 2}, Padding3d(1, 0, 1), 2, nchw)},
      // One zero behind the image and none before it, as TensorFlow pads: cuDNN cannot.
      {{1, 6, 5, 2}, {3, 3, 2, 2}, two({2, 1}, {1, 1}, Padding::same, 1, nhwc), false},
      {{1, 6, 6, 2}, {3, 3, 2, 2}, two({1, 1}, {1, 1}, Padding({1, 1}, {2, 1}), 1, nhwc), false},
      {{1, 6, 6, 2}, {3, 3, 2, 2}, two({1, 1}, {1, 1}, Padding({2, 1}, {1, 1}), 1, nhwc), false},
      // Not the same, but what is more or less is read by no output.
      {{1, 6, 6, 2}, {3, 3, 2, 2}, two({2, 2}, {1, 1}, Padding({1, 1}, {0, 1}), 1, nhwc)},
      {{1, 6, 6, 2}, {3, 3, 2, 2}, two({3, 2}, {1, 1}, Padding({0, 1}, {1, 1}), 1, nhwc)},
      {{1, 6, 6, 2}, {4, 4, 2, 2}, two({5, 5}, {1, 1}, Padding({0, 1}, {2, 0}), 1, nhwc)},
  };
}

TEST(LibraryConvolution, IsOursByCudnnsDefinition) {
  for (const ConvolutionCase& c : convolution_cases()) {
    SCOPED_TRACE(testing::Message() << c.x << " * " << c.w);
    const auto g = convolution_geometry(c.x, c.w, c.options, "conv");
    const auto numbers = convolution_numbers(g);
    ASSERT_EQ(numbers.has_value(), c.taken);
    if (!c.taken) continue;
    for (std::size_t i = 0; i < g.axes.size(); ++i) {
      // As cudnnGetConvolutionNdForwardOutputDim works it out.
      const std::int64_t places =
          numbers->x[i + 2] + 2 * numbers->padding[i] - ((numbers->filter[i + 2] - 1) * numbers->dilation[i] + 1);
      EXPECT_EQ(numbers->y[i + 2], places / numbers->stride[i] + 1);
    }
    const Numbers x = some_numbers(c.x.num_elements(), 3), w = some_numbers(c.w.num_elements(), 4),
                  dy = some_numbers(g.y_shape().num_elements(), 5);
    const auto at = [](std::int64_t place) { return static_cast<std::size_t>(place); };
    Numbers y(dy.size()), dx(x.size()), dw(w.size());
    visit_ours(g, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
      y[at(k)] += x[at(i)] * w[at(j)];
      dx[at(i)] += dy[at(k)] * w[at(j)];
      dw[at(j)] += dy[at(k)] * x[at(i)];
    });
    const Numbers filter = transposed(numbers->filter_copy, w);
    Numbers their_y(y.size()), their_dx(x.size()), their_dw(w.size());
    visit_cudnn(*numbers, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
      their_y[at(k)] += x[at(i)] * filter[at(j)];
      their_dx[at(i)] += dy[at(k)] * filter[at(j)];
      their_dw[at(j)] += dy[at(k)] * x[at(i)];
    });
    EXPECT_EQ(their_y, y);
    EXPECT_EQ(their_dx, dx);
    EXPECT_EQ(transposed(numbers->filter_copy.inverse(), their_dw), dw);
  }
}

TEST(LibraryConvolution, OfOneTapIsAMatrixProduct) {
  const ConvolutionOptions plain{.steps = window_steps<2>({1, 1}, {1, 3}, Padding::same, DataFormat::nhwc)};
  const Shape x_shape{2, 3, 4, 5}, w_shape{1, 1, 5, 6};
  const auto g = convolution_geometry(x_shape, w_shape, plain, "conv");
  ASSERT_TRUE(gpu::is_pointwise(g));
  const Numbers x = some_numbers(120, 6), w = some_numbers(30, 7), dy = some_numbers(144, 8);
  Numbers y(144), dx(120), dw(30);
  visit_ours(g, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j), c = static_cast<std::size_t>(k);
    y[c] += x[a] * w[b];
    dx[a] += dy[c] * w[b];
    dw[b] += dy[c] * x[a];
  });
  EXPECT_EQ(product(gpu::pointwise_forward(g), x, w), y);
  EXPECT_EQ(product(gpu::pointwise_backward_input(g), dy, w), dx);
  EXPECT_EQ(product(gpu::pointwise_backward_filter(g), x, dy), dw);

  const auto is_pointwise = [&](const Shape& x, const Shape& w, const ConvolutionOptions& options) {
    return gpu::is_pointwise(convolution_geometry(x, w, options, "conv"));
  };
  ConvolutionOptions options = plain;
  options.groups = 5;
  EXPECT_FALSE(is_pointwise(x_shape, {1, 1, 1, 5}, options));
  options = plain;
  options.steps.stride = {1, 2};
  EXPECT_FALSE(is_pointwise(x_shape, w_shape, options));
  options = plain;
  options.steps.format = DataFormat::nchw;
  EXPECT_FALSE(is_pointwise({2, 5, 3, 4}, w_shape, options));
  options = {.steps = window_steps<2>({1, 1}, {1, 1}, Padding(0, 1), DataFormat::nhwc)};
  EXPECT_FALSE(is_pointwise(x_shape, w_shape, options));
  EXPECT_FALSE(is_pointwise(x_shape, {1, 2, 5, 6}, plain));
}

TEST(LibraryConvolution, TakesNothingEmptyAndNothingTooLarge) {
  const ConvolutionOptions options{.steps = window_steps<2>({1, 1}, {1, 1}, Padding::same, DataFormat::nhwc)};
  const auto is_taken = [&](const Shape& x, const Shape& w) {
    return convolution_numbers(convolution_geometry(x, w, options, "conv")).has_value();
  };
  EXPECT_TRUE(is_taken({1, 4, 4, 3}, {3, 3, 3, 2}));
  EXPECT_FALSE(is_taken({0, 4, 4, 3}, {3, 3, 3, 2}));
  EXPECT_FALSE(is_taken({1, 4, 4, 0}, {3, 3, 0, 2}));
  EXPECT_FALSE(is_taken({1, 4, 4, 3}, {3, 3, 3, 0}));
  EXPECT_TRUE(is_taken({1, 1 << 15, (1 << 15) - 1, 1}, {3, 3, 1, 2}));
  EXPECT_FALSE(is_taken({1, 1 << 15, 1 << 15, 2}, {3, 3, 2, 1}));
  EXPECT_FALSE(is_taken({1, 1 << 15, 1 << 15, 1}, {3, 3, 1, 2}));
  EXPECT_FALSE(is_taken({std::int64_t{1} << 32, 1, 1, 1}, {1, 1, 1, 1}));
  EXPECT_FALSE(is_taken({std::int64_t{1} << 30, std::int64_t{1} << 20, 1, 1}, {1, 1, 1, 1}));
}

}  // namespace
}  // namespace sectionflow
