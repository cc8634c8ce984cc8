// Flops beside plain loops over numbers that count, bytes beside sums written out by hand.

#include "bench/ops/op_work.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "tests/bench/counted.h"
#include "tests/bench/tiny_cases.h"

namespace sectionflow::bench {
namespace {

/// Flops, or bytes, of the rows of a case by "operation" or "gradient operation"; of equal names the first.
std::map<std::string, KernelRow> rows_of(const TinyCase& tiny, Dtype dtype = Dtype::f32) {
  std::map<std::string, KernelRow> rows;
  for (const KernelRow& row : measure(tiny, dtype).rows) {
    rows.emplace((row.is_gradient ? "gradient " : "") + row.operation, row);
  }
  return rows;
}

using Loops = std::function<void()>;

/// Calls `body` `times` times.
Loops repeat(std::int64_t times, const Loops& body) {
  return [=] {
    for (std::int64_t i = 0; i < times; ++i) body();
  };
}

struct FlopsCase {
  TinyCase tiny;
  std::map<std::string, Loops> loops;  ///< by row
};

void expect_flops(const std::vector<FlopsCase>& cases) {
  for (const FlopsCase& one : cases) {
    const auto rows = rows_of(one.tiny);
    for (const auto& [name, loops] : one.loops) {
      SCOPED_TRACE(one.tiny.op + ", " + name);
      ASSERT_TRUE(rows.contains(name));
      // The estimate of a product takes a root.
      EXPECT_NEAR(rows.at(name).flops, operations_of(loops), 1e-6);
    }
  }
}

Counted a, b, c, d;

void multiply_and_add() {
  a += b * c;
}

TEST(Flops, OfConvolutionsAreAProductAndASumATap) {
  // [2, 5, 6, 4], 6 filters of [3, 2, 4 / 2], stride 2x1, same: [2, 3, 6, 6].
  const Loops plane = repeat(2 * 3 * 6, repeat(6, repeat(3 * 2 * 2, multiply_and_add)));
  const TinyCase conv2d{"conv2d", "2x5x6x4", {{"filters", "6"}, {"kernel", "3x2"}, {"stride", "2x1"}, {"groups", "2"}}};
  // [1, 4, 5, 3, 2], 3 filters of [2, 2, 2, 2], valid: [1, 3, 4, 2, 3].
  const Loops volume = repeat(3 * 4 * 2, repeat(3, repeat(2 * 2 * 2 * 2, multiply_and_add)));
  const TinyCase conv3d{"conv3d", "1x4x5x3x2", {{"filters", "3"}, {"padding", "valid"}, {"kernel", "2"}}};
  // Each of [2, 3, 4, 5] meets a kernel [2, 2] for each of 3 filters.
  const Loops transposed = repeat(2 * 3 * 4 * 5, repeat(2 * 2 * 3, multiply_and_add));
  expect_flops(
      {{conv2d,
        {{"conv2d", plane}, {"gradient conv2d_backward_input", plane}, {"gradient conv2d_backward_filter", plane}}},
       {conv3d,
        {{"conv3d", volume}, {"gradient conv3d_backward_input", volume}, {"gradient conv3d_backward_filter", volume}}},
       {{"conv_transpose2d", "2x3x4x5", {{"filters", "3"}}},
        {{"conv_transpose2d", transposed},
         {"gradient conv2d", transposed},
         {"gradient conv2d_backward_filter", transposed}}}});
}

TEST(Flops, OfProductsAreAProductAndASumAnInnerElement) {
  const Loops one = repeat(5 * 3, repeat(7, multiply_and_add));
  const Loops batch = repeat(2 * 3, repeat(5 * 4, repeat(7, multiply_and_add)));
  const Loops over_rows = repeat(3 * 5, repeat(2 * 4, multiply_and_add));
  const Loops product = repeat(6 * 3, repeat(5, multiply_and_add));
  expect_flops({{{"matmul", "5x7", {{"columns", "3"}}}, {{"matmul", one}, {"gradient matmul", one}}},
                {{"batch_matmul", "2x3x5x7", {{"columns", "4"}}}, {{"matmul", batch}, {"gradient matmul", batch}}},
                {{"matmul_over_rows", "3x5x2", {{"columns", "4"}}}, {{"matmul_over_rows", over_rows}}},
                {{"dense", "2x3x5", {{"columns", "3"}}},
                 {{"matmul", product},
                  {"bias_add", repeat(6 * 3, [] { a + b; })},
                  {"gradient matmul_over_rows", product},
                  {"gradient bias_add_grad", repeat(6 * 3, [] { a += b; })}}},
                // Queries by keys, and weights by values; the gradient computes the first again, and four more.
                {{"attention", "2x3x4x5", {{"keys", "6"}}},
                 {{"attention", repeat(2 * 3 * 4 * 6, repeat(2 * 5, multiply_and_add))},
                  {"gradient attention_grad", repeat(2 * 3 * 4 * 6, repeat(5 * 5, multiply_and_add))}}}});
}

TEST(Flops, OfPoolsAreAnOperationATap) {
  // [2, 6, 8, 3] by windows of 2: [2, 3, 4, 3]; [1, 4, 4, 6, 2]: [1, 2, 2, 3, 2].
  const auto window = [](std::int64_t outputs, std::int64_t taps, const Loops& tap, const Loops& end) {
    return repeat(outputs, [=] {
      repeat(taps, tap)();
      end();
    });
  };
  const Loops compare = [] { larger(a, b); }, add = [] { a += b; }, divide = [] { a / b; }, nothing = [] {};
  expect_flops(
      {{{"max_pool2d", "2x6x8x3", {{"kernel", "2"}, {"padding", "valid"}}},
        {{"max_pool2d", window(72, 4, compare, nothing)}, {"gradient max_pool2d_grad", window(72, 1, add, nothing)}}},
       {{"average_pool2d", "2x6x8x3"},
        {{"average_pool2d", window(72, 4, add, divide)}, {"gradient average_pool2d_grad", window(72, 4, add, divide)}}},
       {{"max_pool3d", "1x4x4x6x2"}, {{"max_pool3d", window(24, 8, compare, nothing)}}},
       {{"average_pool3d", "1x4x4x6x2"}, {{"average_pool3d", window(24, 8, add, divide)}}}});
}

/// Of `count` numbers: mean, variance, and the reciprocal of the root.
void take_statistics(std::int64_t count) {
  repeat(count, [] { a += b; })();
  a / c;
  repeat(count, [] {
    const Counted difference = b - a;
    c += difference * difference;
  })();
  c / d;
  b / function(c + d);
}

TEST(Flops, OfNormalisationsAreThoseOfTheirFormulas) {
  const Loops normalise = [] { (a - b) * c* d + a; };
  const Loops sums = [] {  // of dy, and of dy xhat
    const Counted xhat = (a - b) * c;
    a += b;
    a += b * xhat;
  };
  expect_flops({{{"layer_norm", "4x7"},
                 {{"layer_norm", repeat(4,
                                        [=] {
                                          take_statistics(7);
                                          repeat(7, normalise)();
                                        })},
                  {"gradient layer_norm_grad", repeat(4,
                                                      [=] {
                                                        repeat(7, [=] {
                                                          sums();
                                                          const Counted g = a * b;
                                                          c += g;
                                                          c += g * d;
                                                        })();
                                                        c / d;
                                                        c / d;
                                                        repeat(7, [] { a*(b - c - a * d); })();
                                                      })}}},
                {{"rms_norm", "4x7"},
                 {{"rms_norm", repeat(4,
                                      [=] {
                                        repeat(7, [] { a += b * b; })();
                                        a / function(b / c + d);
                                        repeat(7, [] { a* b* c; })();
                                      })},
                  {"gradient rms_norm_grad", repeat(4,
                                                    [=] {
                                                      repeat(7, [] {
                                                        a += b * (c * d);
                                                        b += (c * d) * a;
                                                        a*(b - c * d);
                                                      })();
                                                      c / d;
                                                    })}}},
                {{"group_norm", "3x4x6", {{"groups", "2"}}},
                 {{"group_norm", repeat(3 * 2,
                                        [=] {
                                          take_statistics(12);
                                          repeat(12, normalise)();
                                        })}}},
                {{"batch_norm", "3x4x5"},
                 {{"batch_norm", repeat(5,
                                        [=] {
                                          take_statistics(12);
                                          repeat(12, normalise)();
                                        })},
                  {"gradient batch_norm_grad", repeat(5, [=] {
                     a / function(c + d);
                     repeat(12, sums)();
                     b / c;
                     b / c;
                     a* b;
                     repeat(12, [] { a*(b - c - a * d); })();
                   })}}}});
}

TEST(Flops, OfSoftmaxAreThoseOfItsFormulas) {
  const Loops exponentials = [] {  // the largest, then the sum of e^(x - largest)
    larger(a, b);
    c += function(a - b);
  };
  const Loops dot = [] { a += b * c; };
  expect_flops({{{"softmax", "3x5"},
                 {{"softmax", repeat(3 * 5,
                                     [=] {
                                       exponentials();
                                       a / b;
                                     })},
                  {"gradient softmax_grad", repeat(3 * 5,
                                                   [=] {
                                                     dot();
                                                     a*(b - c);
                                                   })}}},
                {{"log_softmax", "3x5"},
                 {{"log_softmax", repeat(3,
                                         [=] {
                                           repeat(5, exponentials)();
                                           function(a);
                                           repeat(5, [] { a - b; })();
                                         })},
                  {"gradient log_softmax_grad", repeat(3 * 5,
                                                       [] {
                                                         a += b;
                                                         a - function(b) * c;
                                                       })}}},
                {{"softmax_cross_entropy", "4x6"},
                 {{"softmax_cross_entropy", repeat(4,
                                                   [=] {
                                                     repeat(6, exponentials)();
                                                     function(a) - (b - c);
                                                   })},
                  {"gradient softmax_cross_entropy_grad", repeat(4, [] {
                     a + b;
                     repeat(6, [] { function(a - b) * c; })();
                     a - b;
                   })}}}});
}

TEST(Flops, OfElementWiseOperationsAreThoseOfTheirFormulas) {
  const auto each = [](void (*formula)()) { return repeat(21, formula); };
  const auto sigmoid = [] { return a / (b + function(-c)); };
  expect_flops(
      {{{"add", "3x7"}, {{"add", each([] { a + b; })}}},
       {{"mul", "3x7"}, {{"mul", each([] { a* b; })}, {"gradient mul", each([] { a* b; })}}},
       {{"div", "3x7"},
        {{"div", each([] { a / b; })}, {"gradient neg", each([] { -a; })}, {"gradient mul", each([] { a* b; })}}},
       {{"maximum", "3x7"}, {{"maximum", each([] { larger(a, b); })}, {"gradient maximum_grad", each([] {
                                                                         larger(a, b);
                                                                         larger(b, a);
                                                                       })}}},
       {{"relu", "3x7"}, {{"relu", each([] { larger(a, b); })}, {"gradient relu_grad", each([] { larger(a, b); })}}},
       {{"gelu", "3x7"}, {{"gelu", each([] { a*(b + function(a * c)) * d; })}, {"gradient gelu_grad", each([] {
                                                                                  const Counted slope =
                                                                                      a * c * function(a * a * b);
                                                                                  b*((a + function(b * c)) * d + slope);
                                                                                })}}},
       {{"softplus", "3x7"}, {{"softplus", each([] { larger(a, b) + function(function(-function(a))); })}}},
       {{"mish", "3x7"},
        {{"mish", each([] {
            const Counted e = function(a), n = e * (e + b);
            a*(n / (n + b));
          })},
         {"gradient mish_grad", each([] {
            const Counted e = function(a), n = e * (e + b), m = n + b;
            d*(n / m + a * (c * e * (b + e) / (m * m)));
          })}}},
       {{"hard_swish", "3x7"},
        {{"hard_swish", each([] { a* larger(larger(a + b, c), d) / b; })},
         {"gradient hard_swish_grad", each([] { larger(larger(d, d * ((a + a + b) / c)), b); })}}},
       {{"elu", "3x7"}, {{"elu", each([] { larger(a, b * function(a)); })}}},
       {{"silu", "3x7"},
        {{"silu", repeat(21, [=] { a* sigmoid(); })},
         {"gradient silu_grad", repeat(21,
                                       [=] {
                                         const Counted s = sigmoid();
                                         a* s*(b + c * (b - s));
                                       })}}},
       {{"sigmoid", "3x7"},
        {{"sigmoid", repeat(21, [=] { sigmoid(); })}, {"gradient sigmoid_grad", each([] { a*(b * (c - b)); })}}},
       {{"tanh", "3x7"}, {{"tanh", each([] { function(a); })}, {"gradient tanh_grad", each([] { a*(b - c * c); })}}},
       {{"exp", "3x7"}, {{"exp", each([] { function(a); })}, {"gradient mul", each([] { a* b; })}}},
       {{"square", "3x7"}, {{"square", each([] { a* a; })}, {"gradient square_grad", each([] { a* b* c; })}}},
       {{"clip", "3x7"}, {{"clip", each([] { larger(a, larger(b, c)); })}}},
       {{"dropout", "3x7"}, {{"dropout", each([] {
                                larger(a, b);
                                a* c;
                              })}}},
       {{"cast", "3x7"}, {{"cast", [] {}}}}});
}

TEST(Flops, OfReductionsAreAnOperationAnElement) {
  const Loops add = [] { a += b; }, divide = [] { a / b; };
  expect_flops(
      {{{"reduce_sum", "3x4x5"}, {{"reduce", repeat(60, add)}, {"gradient reduce_grad", [] {}}}},
       {{"reduce_mean", "3x4x5", {{"axis", "1"}}},
        {{"reduce", repeat(15,
                           [=] {
                             repeat(4, add)();
                             divide();
                           })},
         {"gradient reduce_grad", repeat(15, divide)}}},
       {{"reduce_max", "3x4x5", {{"axis", "0"}}}, {{"reduce", repeat(60, [] { larger(a, b); })}}},
       {{"global_norm", "3x7"},
        {{"global_norm",
          [] {
            repeat(21, [] { a += b * b; })();
            function(a);
          }},
         {"gradient global_norm_grad", divide}}},
       {{"argmax", "3x7"}, {{"argmax", repeat(21, [] { larger(a, b); })}}},
       {{"gather", "9x4", {{"indices", "5"}}}, {{"gather", [] {}}, {"gradient gather_grad", repeat(20, add)}}},
       {{"scatter_add", "9x4", {{"indices", "5"}}}, {{"scatter", repeat(20, add)}, {"gradient gather_present", [] {}}}},
       {{"cumsum", "3x4x5", {{"axis", "1"}}}, {{"cumsum", repeat(60, add)}, {"gradient cumsum", repeat(60, add)}}},
       {{"top_k", "3x7", {{"k", "2"}}},
        {{"top_k", repeat(21, [] { larger(a, b); })}, {"gradient take_along_grad", repeat(6, add)}}},
       {{"categorical", "3x7"},
        {{"categorical", repeat(21,
                                [] {
                                  larger(a, b);
                                  c += function(a - b);
                                })}}},
       {{"random_gumbel_like", "3x7"}, {{"random_like", repeat(21, [] { c = -function(-function(a - b)); })}}},
       {{"bias_add", "3x4x5"}, {{"bias_add", repeat(60, add)}, {"gradient bias_add_grad", repeat(60, add)}}},
       {{"transpose", "2x3x4x5"}, {{"transpose", [] {}}, {"gradient transpose", [] {}}}}});
}

TEST(Flops, OfUpdatesAreThoseOfTheirFormulas) {
  const auto each = [](void (*formula)()) { return repeat(50, formula); };
  expect_flops(
      {{{"apply_sgd", "50"}, {{"apply_sgd", each([] { a - b* c; })}}},
       {{"apply_momentum", "50"}, {{"apply_momentum", each([] { a - b*(c * d + a); })}}},
       {{"apply_adam", "50"}, {{"apply_adam", each([] {
                                  const Counted m = a * b + c * d, v = a * b + c * (d * d);
                                  a - b* m / (function(v) + c);
                                })}}},
       {{"apply_adam_w", "50"}, {{"apply_adam_w", each([] {
                                    const Counted m = a * b + c * d, v = a * b + c * (d * d);
                                    a* b - b* m / (function(v / d) + c);
                                  })}}},
       {{"apply_adagrad", "50"}, {{"apply_adagrad", each([] { a - b* c / (function(a + b * b) + d); })}}},
       {{"apply_rms_prop", "50"}, {{"apply_rms_prop", each([] { a - b* c / (function(a * b + c * (d * d)) + d); })}}},
       {{"apply_lion", "50"}, {{"apply_lion", each([] {
                                  larger(larger(a * b + c * d, c), d);
                                  a* b - c* d;
                                  a* b + c* d;
                                })}}}});
}

TEST(Bytes, AreThoseOfEachOperandAndResultOnce) {
  const auto bytes = [](const TinyCase& tiny, const std::string& row, Dtype dtype = Dtype::f32) {
    return rows_of(tiny, dtype).at(row).bytes;
  };
  const TinyCase conv2d{"conv2d", "2x5x6x4", {{"filters", "6"}, {"kernel", "3x2"}, {"stride", "2x1"}, {"groups", "2"}}};
  const double x = 2 * 5 * 6 * 4, w = 3 * 2 * 2 * 6, y = 2 * 3 * 6 * 6;
  EXPECT_EQ(bytes(conv2d, "conv2d"), 4 * (x + w + y));
  // Of x, and of w, the shape alone is read.
  EXPECT_EQ(bytes(conv2d, "gradient conv2d_backward_input"), 4 * (y + w + x));
  EXPECT_EQ(bytes(conv2d, "gradient conv2d_backward_filter"), 4 * (y + x + w));
  EXPECT_EQ(bytes(conv2d, "conv2d", Dtype::bf16), 2 * (x + w + y));
  EXPECT_EQ(bytes({"matmul", "5x7", {{"columns", "3"}}}, "matmul"), 4 * (35 + 21 + 15));
  EXPECT_EQ(bytes({"relu", "3x7"}, "relu"), 4 * 2 * 21);
  EXPECT_EQ(bytes({"relu", "3x7"}, "gradient relu_grad"), 4 * 3 * 21);
  EXPECT_EQ(bytes({"add", "3x7"}, "add"), 4 * 3 * 21);
  EXPECT_EQ(bytes({"cast", "3x7"}, "cast"), 4 * 21 + 2 * 21);
  EXPECT_EQ(bytes({"reduce_sum", "3x4x5"}, "reduce"), 4 * (60 + 12));
  // x, scale, shift; y, mean, 1 / deviation.
  EXPECT_EQ(bytes({"layer_norm", "4x7"}, "layer_norm"), 4 * (28 + 7 + 7 + 28 + 4 + 4));
  // In training the running statistics are not read.
  EXPECT_EQ(bytes({"batch_norm", "3x4x5"}, "batch_norm"), 4 * (60 + 5 + 5 + 60 + 5 + 5));
  // An index of one byte an output.
  const TinyCase max_pool{"max_pool2d", "2x6x8x3", {{"kernel", "2"}, {"padding", "valid"}}};
  EXPECT_EQ(bytes(max_pool, "max_pool2d"), 4 * (288 + 72) + 72);
  EXPECT_EQ(bytes(max_pool, "gradient max_pool2d_grad"), 4 * (288 + 72) + 72);
}

TEST(Bytes, OfWhatIsMovedAreThoseThatMove) {
  const auto bytes = [](const TinyCase& tiny, const std::string& row) { return rows_of(tiny).at(row).bytes; };
  // The rows that are taken, twice, and the indices.
  EXPECT_EQ(bytes({"gather", "9x4", {{"indices", "5"}}}, "gather"), 4 * (2 * 20 + 5));
  EXPECT_EQ(bytes({"gather", "9x4", {{"indices", "5"}}}, "gradient gather_grad"), 4 * (20 + 5 + 36));
  EXPECT_EQ(bytes({"slice", "4x6"}, "slice"), 4 * 2 * 12);
  EXPECT_EQ(bytes({"slice", "4x6"}, "gradient slice_grad"), 4 * (12 + 24));
  EXPECT_EQ(bytes({"concat", "3x4", {{"parts", "3"}, {"axis", "0"}}}, "concat"), 4 * 2 * 36);
  EXPECT_EQ(bytes({"pad", "2x3x4x5"}, "pad"), 4 * (120 + 2 * 5 * 6 * 5));
  EXPECT_EQ(bytes({"transpose", "2x3x4x5"}, "transpose"), 4 * 2 * 120);
}

TEST(Bytes, OfUpdatesCountVariablesTwice) {
  const auto bytes = [](const std::string& op) { return rows_of({op, "50"}).at(op).bytes; };
  // Variable read and written, gradient, learning rate.
  EXPECT_EQ(bytes("apply_sgd"), 4 * (2 * 50 + 50 + 1));
  EXPECT_EQ(bytes("apply_momentum"), 4 * (2 * 100 + 50 + 1));
  // The step counter has eight bytes.
  EXPECT_EQ(bytes("apply_adam"), 4 * (2 * 150 + 50 + 1) + 8);
}

}  // namespace
}  // namespace sectionflow::bench
