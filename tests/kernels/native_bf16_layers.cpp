// Lines of NativeBf16 (native_bf16.h) for what attends, takes rows, goes over windows or multiplies.

#include <vector>

#include "base/dtype.h"
#include "graph/nodes/arithmetic.h"
#include "graph/ops/attention.h"
#include "graph/ops/indexing.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pool.h"
#include "graph/ops/random.h"
#include "graph/ops/ranking.h"
#include "graph/ops/reduce.h"
#include "graph/ops/resize.h"
#include "graph/ops/scan.h"
#include "graph/ops/scatter.h"
#include "tests/kernels/native_bf16.h"

namespace sectionflow::testing_support {
namespace {

std::vector<Value> attended(Bf16Inputs& in, const Shape& queries, const Shape& keys, bool causal) {
  const Value q = in.bf16(queries), k = in.bf16(keys), v = in.bf16(keys);
  return in.with_gradients(attention(q, k, v, {.causal = causal}));
}

std::vector<Bf16Line> attention_lines() {
  return {
      // No channels in eights: those are for tensor cores, whose factors are bf16 throughout (tests/ops/attention.cpp).
      {"attention",
       [](Bf16Inputs& in) {
         return attended(in, {2, 2, 9, 6}, {2, 2, 70, 6}, false);
       }},
      {"attention_causal",
       [](Bf16Inputs& in) {
         return attended(in, {1, 2, 70, 66}, {1, 2, 70, 66}, true);
       }},
      {"attention_of_many_channels",
       [](Bf16Inputs& in) {
         return attended(in, {1, 1, 9, 132}, {1, 1, 9, 132}, true);
       }},
      {"attention_of_several_tiles",  // of 11 and 10 heads, with a part of the queries and of the keys
       [](Bf16Inputs& in) {
         return attended(in, {1, 21, 130, 6}, {1, 21, 130, 6}, true);
       },
       true},
      {"attention_of_many_keys",  // each tile has a part of the queries and all keys
       [](Bf16Inputs& in) {
         return attended(in, {1, 16, 70, 2}, {1, 16, 2048, 2}, false);
       },
       true},
      {"attention_of_one_value",  // as keys and values, and as queries and keys
       [](Bf16Inputs& in) {
         const Value q = in.bf16({1, 2, 9, 6}), k = in.bf16({1, 2, 9, 6});
         std::vector<Value> all = in.with_gradients(attention(q, k, k, {.causal = true}));
         in.differentiated = {q, k};
         for (const Value& value : in.with_gradients(attention(k, k, q, {}))) all.push_back(value);
         return all;
       }},
  };
}

/// Rows of a table at random indices, some of them twice and some outside of it.
std::vector<Value> gathered(Bf16Inputs& in, std::int64_t row_length) {
  const Value table = in.bf16({7, row_length});
  HostTensor indices(Dtype::i32, {40});
  std::int32_t next = -1;
  for (std::int32_t& index : indices.values<std::int32_t>()) index = next = (next + 4) % 9;
  return in.with_gradients(gather(table, constant(in.graph, std::move(indices))));
}

std::vector<Value> reduced(Bf16Inputs& in, const Shape& shape, const std::vector<int>& axes) {
  std::vector<Value> all;
  for (auto* function : {reduce_sum, reduce_mean, reduce_max}) {
    const Value x = in.bf16(shape);
    in.differentiated = {x};
    for (const Value& value : in.with_gradients(function(x, {.axes = axes}, Where::here()))) all.push_back(value);
  }
  return all;
}

std::vector<Bf16Line> window_lines() {
  const Pool2dOptions overlapping{.window = {3, 3}, .stride = {2, 2}, .padding = Padding::same};
  const Pool2dOptions large{.window = {17, 17}, .stride = {1, 1}};  // indices of four bytes
  const Pool3dOptions of_volumes{.window = {2, 2, 2}, .stride = {1, 1, 1}, .format = DataFormat::nchw};
  const Shape images{2, 9, 8, 5}, volumes{2, 3, 4, 5, 4}, packs{2, 9, 8, 16}, large_images{1, 18, 18, 4};
  const auto max2 = [](Bf16Inputs& in, const Shape& x, const Pool2dOptions& options) {
    return in.with_gradients(max_pool2d(in.bf16(x), options));
  };
  const auto resized = [=](Bf16Inputs& in, Resize2dOptions options) {
    return in.with_gradients(resize2d(in.bf16(images), options));
  };
  return {
      {"max_pool2d", [=](Bf16Inputs& in) { return max2(in, images, overlapping); }},
      {"max_pool2d_of_packs", [=](Bf16Inputs& in) { return max2(in, packs, overlapping); }},
      {"max_pool2d_of_large_windows", [=](Bf16Inputs& in) { return max2(in, large_images, large); }},
      {"max_pool2d_of_special_numbers",
       [=](Bf16Inputs& in) { return std::vector{max_pool2d(in.extreme(images), overlapping)}; }},
      {"average_pool2d",
       [=](Bf16Inputs& in) { return in.with_gradients(average_pool2d(in.bf16(images), overlapping)); }},
      {"average_pool2d_of_packs",
       [=](Bf16Inputs& in) { return in.with_gradients(average_pool2d(in.bf16(packs), overlapping)); }},
      {"max_pool3d", [=](Bf16Inputs& in) { return in.with_gradients(max_pool3d(in.bf16(volumes), of_volumes)); }},
      {"average_pool3d",
       [=](Bf16Inputs& in) { return in.with_gradients(average_pool3d(in.bf16(volumes), of_volumes)); }},
      {"resize_nearest", [=](Bf16Inputs& in) { return resized(in, {.height = 13, .width = 5}); }},
      {"resize_bilinear",
       [=](Bf16Inputs& in) { return resized(in, {.height = 13, .width = 5, .method = ResizeMethod::bilinear}); }},
      {"resize_bilinear_of_many_channels",
       [=](Bf16Inputs& in) {
         const Resize2dOptions smaller{.height = 3, .width = 2, .method = ResizeMethod::bilinear};
         return in.with_gradients(resize2d(in.bf16({1, 5, 4, 70}), smaller));
       }},
      {"resize_bilinear_nchw",
       [=](Bf16Inputs& in) {
         Resize2dOptions options{.height = 4, .width = 9, .method = ResizeMethod::bilinear, .align_corners = true};
         options.format = DataFormat::nchw;
         return in.with_gradients(resize2d(in.bf16({2, 3, 5, 7}), options));
       }},
      {"resize_to_the_same", [=](Bf16Inputs& in) { return resized(in, {.height = 9, .width = 8}); }},
      {"cumsum",
       [](Bf16Inputs& in) {
         return std::vector{cumsum(in.bf16({9, 77}), 1), cumsum(in.extreme({40, 30}), 0, {.exclusive = true}),
                            cumsum(in.bf16({3, 700}), 1, {.reverse = true})};
       }},
      {"top_k",
       [](Bf16Inputs& in) {
         const TopK top = top_k(in.extreme({9, 770}), 30);
         return std::vector{top.values, top.indices, take_along(in.bf16({9, 40}), top.indices)};
       }},
      {"scatter",
       [](Bf16Inputs& in) {
         HostTensor indices(Dtype::i32, {50});
         for (int i = 0; i < 50; ++i) indices.values<std::int32_t>()[static_cast<std::size_t>(i)] = i * 7 % 12 - 1;
         const Value places = constant(in.graph, std::move(indices));
         std::vector<Value> all = {scatter_max(in.extreme({10, 8}), places, in.extreme({50, 8}))};
         for (const std::int64_t length : {1, 8, 261}) {
           const Value x = in.bf16({10, length}), updates = in.bf16({50, length});
           all.push_back(scatter_add(x, places, updates));
           all.push_back(scatter_max(x, places, updates));
         }
         return all;
       }},
      {"categorical",
       [](Bf16Inputs& in) {
         return std::vector{categorical(in.bf16({9, 770}), {.draws = 30}), categorical(in.extreme({9, 7}))};
       }},
      {"gather", [](Bf16Inputs& in) { return gathered(in, 8); }},
      {"gather_of_odd_rows", [](Bf16Inputs& in) { return gathered(in, 5); }},
      {"gather_of_long_rows", [](Bf16Inputs& in) { return gathered(in, 130); }},
      {"gather_of_numbers", [](Bf16Inputs& in) { return gathered(in, 1); }},
      {"reduce_rows",
       [](Bf16Inputs& in) {
         return reduced(in, {40, 77}, {1});
       }},
      {"reduce_columns",
       [](Bf16Inputs& in) {
         return reduced(in, {300, 12}, {0});
       }},
      {"reduce_few_columns",
       [](Bf16Inputs& in) {
         return reduced(in, {5, 12, 3}, {0, 1});
       }},
      {"reduce_to_one",
       [](Bf16Inputs& in) {
         return reduced(in, {90, 101}, {});
       }},
      {"reduce_special_numbers",
       [](Bf16Inputs& in) {
         return std::vector{reduce_max(in.extreme({9, 12}), {.axes = {1}}), reduce_sum(in.extreme({9, 12}))};
       }},
      {"reduce_to_like",
       [](Bf16Inputs& in) {
         return std::vector{reduce_to_like(in.bf16({30, 7, 4}), in.bf16({7, 1}))};
       }},
  };
}

/// The products of some matrices, and their gradients, which are such products too.
std::vector<Value> multiplied(Bf16Inputs& in, const Shape& a, const Shape& b, const MatmulOptions& options = {}) {
  const Value first = in.bf16(a), second = in.bf16(b);
  return in.with_gradients(matmul(first, second, options));
}

std::vector<Bf16Line> product_lines() {
  return {
      {"products",
       [](Bf16Inputs& in) {
         return multiplied(in, {3, 7, 13}, {3, 13, 5});
       },
       true},
      {"products_of_transposed",
       [](Bf16Inputs& in) {
         return multiplied(in, {2, 3, 40, 33}, {2, 3, 17, 40}, {.transpose_a = true, .transpose_b = true});
       },
       true},
      {"products_in_slices",  // of 34 and 32 matrices
       [](Bf16Inputs& in) {
         return multiplied(in, {66, 128, 48}, {66, 48, 512});
       },
       true},
  };
}

INSTANTIATE_TEST_SUITE_P(Attention, NativeBf16, testing::ValuesIn(attention_lines()), bf16_line_name);
INSTANTIATE_TEST_SUITE_P(Products, NativeBf16, testing::ValuesIn(product_lines()), bf16_line_name);
INSTANTIATE_TEST_SUITE_P(Windows, NativeBf16, testing::ValuesIn(window_lines()), bf16_line_name);

}  // namespace
}  // namespace sectionflow::testing_support
