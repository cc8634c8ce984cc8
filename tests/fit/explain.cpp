#include "fit/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <tuple>

#include "base/error.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "tests/fit/explained_case.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Explained : public ::testing::TestWithParam<std::string> {
 protected:
  Explained() : planned_(GetParam(), {.device_memory = budget()}, explained_fit()) {}
  std::size_t budget() const { return GetParam() == "whole" ? 1_GiB : share_of_explained(60); }
  Explanation explanation() { return explain(planned_.session(), {.fit = explained_fit()}); }

  ExplainedCase planned_;
};

TEST_P(Explained, EveryStayOfTheProgramAppearsOnce) {
  std::vector<std::tuple<std::string, int, int>> told, planned;
  const Explanation explanation = this->explanation();
  std::set<std::pair<std::string, bool>> names;
  for (const ExplainedTensor& tensor : explanation.tensors) {
    EXPECT_TRUE(names.emplace(tensor.name, tensor.fate == Fate::scratch).second) << tensor.name;
    for (const ExplainedTensor::Stay& stay : tensor.stays) {
      told.emplace_back(stay.tier, stay.first_step, stay.last_step);
      EXPECT_LE(stay.begin_seconds, stay.end_seconds);
      EXPECT_LE(stay.end_seconds, explanation.seconds * (1 + 1e-9));
    }
  }
  for (const Buffer& buffer : planned_.program().schedule.buffers)
    planned.emplace_back(tier_name(buffer.tier), buffer.life.first, buffer.life.last);
  std::ranges::sort(told);
  std::ranges::sort(planned);
  EXPECT_EQ(told, planned);
}

TEST_P(Explained, PartsVariablesAndGapsComeToThePlannedPeak) {
  const ExplainedPeak peak = explanation().peak;
  std::size_t sum = peak.variables_bytes + peak.unused_bytes;
  for (const PeakPart& part : peak.parts) {
    EXPECT_GT(part.bytes, 0U);
    EXPECT_NE(part.why, "");
    sum += part.bytes;
  }
  EXPECT_EQ(sum, planned_.report().planned_peak_bytes);
  EXPECT_EQ(peak.peak_bytes, planned_.report().planned_peak_bytes);
  EXPECT_EQ(peak.at, planned_.report().fullest_step);
  EXPECT_TRUE(std::ranges::is_sorted(peak.parts, std::greater<>(), &PeakPart::bytes));
  // What the plan wastes, and less than kBufferAlignment for each part.
  const MemoryPlan& plan = planned_.program().plan;
  EXPECT_LE(peak.unused_bytes, plan.peak_bytes + kBufferAlignment - std::min(plan.lower_bound_bytes, plan.peak_bytes) +
                                   kBufferAlignment * (peak.parts.size() + 1));
  EXPECT_TRUE(std::ranges::any_of(peak.parts, [](const PeakPart& part) { return part.why.starts_with("the step"); }));
}

TEST_P(Explained, WhatIsSaidToBeComputedAgainIsSoInTheProgram) {
  const Schedule& schedule = planned_.program().schedule;
  std::map<std::string, int> written;
  std::set<std::string> replayed;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (is_transfer(step.kind)) continue;
    for (const Operand& output : step.outputs) {
      if (output.kind != Operand::Kind::buffer) continue;
      const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(output.index)];
      if (buffer.life.first == static_cast<StepIndex>(i)) ++written[buffer.value.name()];
    }
    if (step.replay) replayed.insert(planned_.graph().node(step.node).name());
  }
  int again = 0;
  std::set<std::string> told;
  for (const ExplainedTensor& tensor : explanation().tensors) {
    if (tensor.fate == Fate::scratch) continue;
    const auto found = written.find(tensor.name);
    EXPECT_EQ(tensor.times_again, found == written.end() ? 0 : found->second - 1) << tensor.name;
    if (tensor.fate == Fate::computed_again) {
      EXPECT_GT(tensor.times_again, 0) << tensor.name;
      EXPECT_GT(tensor.seconds, 0) << tensor.name;
    }
    again += tensor.times_again;
    if (tensor.times_again > 0) told.insert(tensor.name.substr(0, tensor.name.find(':')));
  }
  for (const std::string& name : replayed) EXPECT_TRUE(told.contains(name)) << name;
  if (planned_.report().recomputed_operations > 0) {
    EXPECT_GT(again, 0);
  }
}

TEST_P(Explained, WhatIsSaidToBeOffloadedIsSoInTheProgram) {
  std::map<std::string, int> out, to_disk;
  const Schedule& schedule = planned_.program().schedule;
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::copy_out) ++out[carried_buffer(step, schedule).value.name()];
    if (step.kind == StepKind::disk_write) ++to_disk[carried_buffer(step, schedule).value.name()];
  }
  for (const ExplainedTensor& tensor : explanation().tensors) {
    if (tensor.fate == Fate::scratch) continue;
    EXPECT_EQ(tensor.times_to_host, out.contains(tensor.name) ? out.at(tensor.name) : 0) << tensor.name;
    EXPECT_EQ(tensor.times_to_disk, to_disk.contains(tensor.name) ? to_disk.at(tensor.name) : 0) << tensor.name;
    EXPECT_EQ(tensor.fate == Fate::on_host || tensor.fate == Fate::on_disk, out.contains(tensor.name)) << tensor.name;
    EXPECT_EQ(tensor.fate == Fate::on_disk, to_disk.contains(tensor.name)) << tensor.name;
  }
}

TEST_P(Explained, SecondsOfTensorsComeToThoseOfThePlan) {
  const Explanation explanation = this->explanation();
  double seconds = 0;
  for (const ExplainedTensor& tensor : explanation.tensors) seconds += tensor.seconds;
  EXPECT_NEAR(seconds, explanation.again_seconds + explanation.copy_seconds, 1e-9 + 1e-9 * seconds);
  if (planned_.report().predicted_seconds > 0 && GetParam().starts_with("auto")) {
    // Planners of copies count no plan as faster than they know to be possible.
    const double planned = planned_.report().predicted_seconds, slack = GetParam() == "auto:recompute" ? 1e-9 : 0.01;
    EXPECT_NEAR(explanation.seconds, planned, slack * planned);
  }
}

TEST_P(Explained, WhatIsAwayAtThePeakIsNotThere) {
  for (const ExplainedTensor& tensor : explanation().tensors) {
    EXPECT_FALSE(tensor.is_live_at_peak && tensor.saved_at_peak > 0) << tensor.name;
    if (tensor.saved_at_peak > 0) {
      EXPECT_EQ(tensor.saved_at_peak, tensor.bytes);
      EXPECT_GE(tensor.times_again + tensor.times_to_host, 1) << tensor.name;
    }
    EXPECT_EQ(tensor.reason.find('\n'), std::string::npos);
    EXPECT_NE(tensor.reason, "");
  }
}

TEST_P(Explained, JsonHasAllOfIt) {
  const Explanation explanation = this->explanation();
  const auto json = nlohmann::json::parse(explanation.json());
  ASSERT_EQ(json.at("tensors").size(), explanation.tensors.size());
  for (std::size_t i = 0; i < explanation.tensors.size(); ++i) {
    EXPECT_EQ(json.at("tensors").at(i).at("name"), explanation.tensors[i].name);
    EXPECT_EQ(json.at("tensors").at(i).at("stays").size(), explanation.tensors[i].stays.size());
  }
  EXPECT_EQ(json.at("peak").at("parts").size(), explanation.peak.parts.size());
  EXPECT_EQ(json.at("seconds").get<double>(), explanation.seconds);
  EXPECT_FALSE(json.contains("price"));
  EXPECT_FALSE(json.contains("frontier"));
}

INSTANTIATE_TEST_SUITE_P(Strategies, Explained, ::testing::ValuesIn(explained_strategies()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

std::map<Fate, int> fates_of(const Explanation& explanation) {
  std::map<Fate, int> fates;
  for (const ExplainedTensor& tensor : explanation.tensors) ++fates[tensor.fate];
  return fates;
}

TEST(Explain, StrategiesDoWhatTheyAreCalledBy) {
  const auto fates = [](const std::string& name) {
    ExplainedCase planned(name, {.device_memory = name == "whole" ? 1_GiB : share_of_explained(60)}, explained_fit());
    return fates_of(explain(planned.session(), {.fit = explained_fit()}));
  };
  EXPECT_GT(fates("whole")[Fate::kept], 0);
  EXPECT_EQ(fates("whole")[Fate::on_host], 0);
  EXPECT_GT(fates("auto:recompute")[Fate::computed_again], 0);
  EXPECT_GT(fates("auto:swap")[Fate::on_host], 0);
  EXPECT_GT(fates("disk:2")[Fate::on_disk], 0);
  EXPECT_GT(fates("lms:3/1/1/0")[Fate::on_host], 0);
  EXPECT_GT(fates("sections:2")[Fate::computed_again], 0);
}

TEST(Explain, VariablesThatComeFromTheHostAreSaidTo) {
  ExplainedCase planned("whole", {.swap_variables = true});
  const Explanation explanation = explain(planned.session());
  int of_host = 0;
  for (const ExplainedTensor& tensor : explanation.tensors) {
    if (tensor.fate != Fate::on_host) continue;
    ++of_host;
    EXPECT_THAT(tensor.reason, HasSubstr("home tier is host memory"));
  }
  EXPECT_GT(of_host, 0);
}

TEST(Explain, TheTextOfASmallNetIsThis) {
  Graph graph;
  const Value x = placeholder(graph, "x", {256, 256});
  const Value a = tanh(x);
  const Value loss = reduce_sum(sigmoid(sigmoid(a)) * a);
  Session session(graph, {.device_memory = 1_MiB, .threads = 1});
  session.plan({loss}, {{x, {256, 256}}});
  EXPECT_EQ(explain(session).text(),
            "predicted, of a nominal machine: 0.302 ms a step\n"
            "what becomes of it  tensors     bytes  at the peak\n"
            "scratch                   1     128 B\n"
            "passing                   5  1.00 MiB      256 KiB\n"
            "kept                      1   256 KiB      256 KiB\n"
            "\n"
            "the peak, 512 KiB, is at sigmoid 'sigmoid', whole graph\n"
            "there                 bytes          type\n"
            "variables               0 B\n"
            "tanh                256 KiB  f32[256,256]\n"
            "    the step reads it\n"
            "sigmoid             256 KiB  f32[256,256]\n"
            "    the step writes it\n"
            "alignment and gaps      0 B\n"
            "\n"
            "tensor          type              section    bytes  what becomes of it    spares  ms a MiB\n"
            "tanh    f32[256,256]  outside of sections  256 KiB                kept  0.054 ms     0.218\n"
            "    stays from 'sigmoid' until 'mul', 1 step, and at the peak; computing it again would take 0.054 ms, "
            "copying it out and back 0.056 ms\n");
}

/// A backward half that begins with what its forward half has left, to the fetch of a value of that.
TEST(Explain, ABackwardHalfKeepsWhatItsForwardHalfLeftUntilItsFirstReader) {
  Graph graph;
  GraphSectionManager manager(graph);
  Value x = placeholder(graph, "x", {8, 64}), fetched, loss;
  const Value fed = x;
  for (const bool is_last : {false, true}) {
    const auto section = manager.new_section();
    x = relu(matmul(x, variable(is_last ? "b" : "a", fill(graph, {64, 64}, 0.01F))));
    is_last ? loss = reduce_mean(x) : fetched = x;
  }
  manager.add_training_ops(Sgd{}, loss);
  manager.prepare_training();
  Session session(graph, {.threads = 1});
  session.initialize();
  const HostTensor data(Dtype::f32, {8, 64});
  manager.run_forward(session, std::vector<Value>{loss}, {{fed, data}});
  manager.run_backward(session, std::vector<std::vector<Value>>{{fetched}, {}});
  const Program& program = *engine(session).latest_program();
  std::set<std::string> left;
  for (const EntryValue& entry : program.written.entries) left.insert(entry.value.name());
  int waiting = 0;
  for (const ExplainedTensor& tensor : explain(session).tensors) {
    EXPECT_THAT(tensor.reason, Not(HasSubstr("would take 0.000 ms"))) << tensor.name;
    if (tensor.fate == Fate::scratch || !left.contains(tensor.name)) continue;
    EXPECT_THAT(tensor.reason, Not(HasSubstr("computing it again")));
    if (!tensor.reason.starts_with("stays from the forward half until")) continue;
    ++waiting;
    EXPECT_EQ(tensor.fate, Fate::kept);
    EXPECT_GT(tensor.stays.front().last_step, 0);
  }
  EXPECT_GT(waiting, 0);
}

TEST(Explain, RefusesWhatItCannotExplain) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4});
  const Value y = tanh(x);
  Session session(graph, {.threads = 1});
  EXPECT_THROW(explain(session), ArgumentError);
  session.plan({y}, {{x, {4}}});
  EXPECT_NO_THROW(explain(session));
  EXPECT_THROW(explain(session, {.num_budgets = 1}), ArgumentError);
  EXPECT_THROW(explain(session, {.num_budgets = 1001}), ArgumentError);
  EXPECT_THROW(explain(session, {.fit = {.effort = -1}}), ArgumentError);
  EXPECT_THROW(explain(session, {.fit = {.may_recompute = false, .may_swap = false}}), ArgumentError);
}

TEST(Explain, ChangesNothing) {
  ExplainedCase planned("auto", {.device_memory = share_of_explained(60)}, explained_fit());
  const Program* const program = engine(planned.session()).latest_program();
  const std::size_t peak = planned.report().planned_peak_bytes;
  (void)explain(planned.session(), {.fit = explained_fit(), .price = true, .num_budgets = 2});
  EXPECT_EQ(engine(planned.session()).latest_program(), program);
  EXPECT_EQ(program->report.planned_peak_bytes, peak);
}

}  // namespace
}  // namespace sectionflow::testing
