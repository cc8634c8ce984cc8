#include "graph/ops/identities.h"

#include <glog/logging.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/support/moved.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

OpCase stop_case(const std::string& name, Shape shape, Dtype dtype = Dtype::f32) {
  OpCase op_case = moving_case(
      name, {moved_input(dtype, std::move(shape))},
      [](Graph&, const std::vector<Value>& in) { return std::vector{stop_gradient(in[0])}; },
      [](const std::vector<Doubles>& in) { return in; });
  op_case.gradient_outputs = {};
  op_case.dynamic_batch = true;
  return op_case;
}

std::vector<OpCase> stop_cases() {
  std::vector<OpCase> cases = {stop_case("scalar", {}), stop_case("nothing", {0, 4}), stop_case("odd", {3, 7}),
                               stop_case("large", {301, 1003})};
  for (Dtype dtype : kAllDtypes) cases.push_back(stop_case(std::string(dtype_name(dtype)), {3, 5}, dtype));
  return cases;
}

class StopGradient : public testing::TestWithParam<OpCase> {};
TEST_P(StopGradient, GivesTheElementsAsTheyAre) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, StopGradient, testing::ValuesIn(stop_cases()), case_name);

TEST(StopGradientExactly, CountsAsAConstant) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const Value dx = gradients(reduce_sum(x * stop_gradient(x * 3.0F)), {x})[0];
  Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({2}, {1, -2}));
  EXPECT_EQ(doubles_of(run_kernels({dx}, feeds)[0]), (Doubles{3, -6}));
}

/// The messages that are logged while it lives.
class CapturedLog final : public google::LogSink {
 public:
  CapturedLog() { google::AddLogSink(this); }
  ~CapturedLog() override { google::RemoveLogSink(this); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  using google::LogSink::send;
  void send(google::LogSeverity, const char*, const char*, int, const google::LogMessageTime&, const char* message,
            size_t length) override {
    messages.emplace_back(message, length);
  }
  std::vector<std::string> messages;
};

std::vector<std::string> messages_of(Value value, const RunOptions& options = {}) {
  CapturedLog log;
  run_kernels({value}, {}, options);
  return log.messages;
}

TEST(Print, LogsLabelTypeAndFirstValues) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({2, 2}, {1, -2.5F, 3, 4}), "x");
  EXPECT_EQ(messages_of(print(x)), std::vector<std::string>{"x f32[2,2] = 1, -2.5, 3, 4"});
  EXPECT_EQ(messages_of(print(x, {.label = "the loss", .first = 2})),
            std::vector<std::string>{"the loss f32[2,2] = 1, -2.5, ..."});
  EXPECT_EQ(messages_of(print(x, {.first = 0})), std::vector<std::string>{"x f32[2,2] = ..."});
}

TEST(Print, TakesEveryDtype) {
  Graph graph;
  const auto expect_text = [&](HostTensor tensor, const std::string& wanted) {
    const Value x = constant(graph, std::move(tensor));
    EXPECT_EQ(messages_of(print(x, {.label = "x"})), std::vector<std::string>{wanted});
  };
  expect_text(HostTensor::of<std::uint8_t>({2}, {65, 200}), "x u8[2] = 65, 200");
  expect_text(HostTensor::of<bool>({2}, {true, false}), "x bool[2] = 1, 0");
  expect_text(HostTensor::scalar<std::int64_t>(-7), "x i64[] = -7");
  expect_text(HostTensor::scalar<std::int32_t>(3), "x i32[] = 3");
  expect_text(HostTensor::scalar<double>(0.25), "x f64[] = 0.25");
  expect_text(HostTensor(Dtype::f32, {0, 2}), "x f32[0,2] =");
}

TEST(Print, LogsOnceInACycleThatReplaysIt) {
  Graph graph;
  const Value y = print(fill(graph, {3}, 1));
  EXPECT_EQ(messages_of(y, {.replay = true}).size(), 1U);
}

OpCase print_case(std::string name, Shape shape) {
  return {.name = std::move(name),
          .inputs = {input(std::move(shape))},
          .build = [](Graph&, const std::vector<Value>& in) { return std::vector{print(in[0], {.first = 1})}; },
          .reference = [](const std::vector<Doubles>& in) { return in; },
          .tolerance = {.relative = 0, .absolute = 0},
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

class PrintCases : public testing::TestWithParam<OpCase> {};
TEST_P(PrintCases, PassValueAndGradient) {
  CapturedLog log;
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, PrintCases,
                         testing::Values(print_case("vector", {5}), print_case("none", {0, 4}),
                                         print_case("large", {301, 1003})),
                         case_name);

}  // namespace

}  // namespace sectionflow
