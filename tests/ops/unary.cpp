#include "graph/ops/unary.h"

#include <cmath>
#include <limits>

#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

struct UnaryOp {
  const char* name;
  Value (*build)(Value, Where);
  double (*apply)(double);
  double low, high;  ///< where it has a gradient
  Tolerance tolerance;
};
const UnaryOp kUnaryOps[] = {
    {"neg", neg, [](double x) { return -x; }, -3, 3, {.relative = 0, .absolute = 0}},
    {"square", square, [](double x) { return x * x; }, -3, 3, {.relative = 0.51, .absolute = 1e-30}},
    {"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.1, 9, {.relative = 0.51, .absolute = 0}},
    {"rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.1, 9, {.relative = 1.1, .absolute = 0}},
    {"exp", exp, [](double x) { return std::exp(x); }, -4, 4, {.relative = 1.1, .absolute = 0}},
    {"log", log, [](double x) { return std::log(x); }, 0.1, 9, {.relative = 1.1, .absolute = 0}},
};

OpCase unary_case(const UnaryOp& op, const std::string& name, CaseInput x) {
  const bool has_batch = x.type.shape.rank() > 0;
  return {.name = std::string(op.name) + "_" + name,
          .inputs = {std::move(x)},
          .build = [build = op.build](
                       Graph&, const std::vector<Value>& in) { return std::vector{build(in[0], Where::here())}; },
          .reference =
              [apply = op.apply](const std::vector<Doubles>& in) {
                Doubles y = in[0];
                for (double& value : y) value = apply(value);
                return std::vector<Doubles>{y};
              },
          .tolerance = op.tolerance,
          .dynamic_batch = has_batch,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const UnaryOp& op : kUnaryOps) {
    all.push_back(unary_case(op, "scalar", input({}, op.low, op.high)));
    all.push_back(unary_case(op, "none", input({0, 4}, op.low, op.high)));
    all.push_back(unary_case(op, "odd", input({3, 5, 7}, op.low, op.high)));
    all.push_back(unary_case(op, "large", input({151, 333}, op.low, op.high)));
    CaseInput special = input({9});
    special.values = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-100, 100};
    special.differentiable = false;
    all.push_back(unary_case(op, "special_numbers", special));
  }
  return all;
}

class Unary : public testing::TestWithParam<OpCase> {};
TEST_P(Unary, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Unary, testing::ValuesIn(cases()), case_name);

TEST(UnaryOps, NegTakesI64AndWrapsAround) {
  Graph graph;
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  const Value x = constant(graph, HostTensor::of<std::int64_t>({3}, {5, kMin, -7}));
  for (InPlaceUse in_place : {InPlaceUse::none, InPlaceUse::first_pairs}) {
    const auto results = run_kernels({-x}, {}, {.in_place = in_place});
    EXPECT_TRUE(same_bits(results[0], HostTensor::of<std::int64_t>({3}, {-5, kMin, 7})));
  }
}

TEST(UnaryOps, RefuseOtherDtypesAndSayWhatToTry) {
  Graph graph;
  const auto refusal = [&](const UnaryOp& op, Dtype dtype) -> std::string {
    try {
      op.build(placeholder(graph, "x", {2}, dtype), Where::here());
    } catch (const ArgumentError& error) {
      return error.message();
    }
    return "";
  };
  const int num_nodes = graph.num_nodes();
  for (const UnaryOp& op : kUnaryOps) {
    for (Dtype dtype : {Dtype::f64, Dtype::i32, Dtype::boolean}) {
      const std::string text = refusal(op, dtype);
      EXPECT_EQ(text.find(text_of(op.name, " '", op.name)), 0U) << text;
      EXPECT_NE(text.find(text_of(" got ", dtype_name(dtype), "[2]")), std::string::npos) << text;
      EXPECT_NE(text.find("try cast"), std::string::npos) << text;
    }
  }
  EXPECT_EQ(graph.num_nodes(), num_nodes + 3 * static_cast<int>(std::size(kUnaryOps))) << "placeholders alone";
}

}  // namespace
}  // namespace sectionflow
