// What a BudgetError advises: nothing that cannot help.
#include "schedule/budget_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "autodiff/optimizers.h"
#include "base/bytes.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/identities.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "runtime/session.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

/// The hint of the BudgetError that running `fetch` in so much memory throws.
std::string hint_of(Graph& graph, Value fetch, const Feeds& feeds, const SessionOptions& options) {
  Session session(graph, options);
  try {
    session.initialize();
    session.run(fetch, feeds);
  } catch (const BudgetError& error) {
    return error.fact("hint");
  }
  return "no error";
}

std::string hint_of(const ProgramReport& report) {
  try {
    throw_budget_error(report);
  } catch (const BudgetError& error) {
    return error.fact("hint");
  }
}

TEST(BudgetAdvice, WhereTheVariablesAloneAreTooLargeNoCutIsAdvised) {
  Graph graph;
  const Value w = variable("w", fill(graph, {1000}, 1));
  variable("v", fill(graph, {1000}, 1));
  variable("u", fill(graph, {1000}, 1));
  EXPECT_THAT(hint_of(graph, w, {}, {.device_memory = 10000, .threads = 1}),
              AllOf(HasSubstr("the variables alone exceed device_memory"), HasSubstr("swap_variables"),
                    HasSubstr("no cut into sections helps"), Not(HasSubstr("more sections"))));
}

TEST(BudgetAdvice, VariablesThatNoOperationHasBytesForAreNotToBeKeptOnTheHost) {
  Graph graph;
  const Value w = variable("w", fill(graph, {1000}, 1));
  EXPECT_THAT(hint_of(graph, w, {}, {.device_memory = 3999, .threads = 1}),
              AllOf(HasSubstr("the variables alone exceed device_memory, and"), HasSubstr("would not fit"),
                    Not(HasSubstr("swap_variables"))));
}

/// A network of one wide layer, trained by Adam: its update takes four tensors as large as the kernel.
struct Wide {
  Graph graph;
  Value x = placeholder(graph, "x", {kDynamic, 16});
  Value loss = reduce_mean(dense(x, {.features = 256, .bias = false}));
  std::vector<Operation> training = minimize(Adam{}, loss);
};

TEST(BudgetAdvice, AnUpdateIsNotHelpedByAnotherBatch) {
  Wide wide;
  Session session(wide.graph, {.device_memory = 60_KiB, .swap_variables = true, .threads = 1});
  session.initialize();
  const HostTensor one(Dtype::f32, {1, 16});
  EXPECT_THAT(
      ([&] {
        session.run({wide.loss}, {{wide.x, one}}, {.targets = wide.training});
      }),
      ThrowsMessage<BudgetError>(AllOf(HasSubstr("apply_adam"), HasSubstr("no other batch helps"),
                                       Not(HasSubstr("make the batch smaller")), Not(HasSubstr("swap_variables")))));
}

TEST(BudgetAdvice, InitialValuesThatDoNotFitAreToldAsThoseOfInitialize) {
  Wide wide;
  Session session(wide.graph, {.device_memory = 8_KiB, .swap_variables = true, .threads = 1});
  EXPECT_THAT(
      [&] { session.initialize(); },
      ThrowsMessage<BudgetError>(AllOf(HasSubstr("session.initialize() needs"),
                                       HasSubstr("what is run then may need more"), Not(HasSubstr("batch sm")))));
}

TEST(BudgetAdvice, ARunOfAGraphInSectionsIsToldToUseThem) {
  ProgramReport report;
  report.planned_peak_bytes = 2_MiB;
  report.budget_bytes = 1_MiB;
  report.fits = false;
  report.in_sections = true;
  EXPECT_THAT(hint_of(report),
              AllOf(HasSubstr("run_full_cycle"), HasSubstr("fit_budget(session)"), Not(HasSubstr("cut the graph"))));
  report.may_swap = true;
  EXPECT_THAT(hint_of(report), AllOf(HasSubstr("run_full_cycle"), Not(HasSubstr("fit_budget"))));
}

TEST(BudgetAdvice, WhereOneOperationsOperandsAreTooLargeItIsNamedAndNoCutIsAdvised) {
  Graph graph;
  const Value x = placeholder(graph, "x", {512, 512});
  const HostTensor data(Dtype::f32, {512, 512});
  // Three operands of 1 MiB.
  const Value y = relu(matmul(x, relu(x), {}));
  const std::string text = hint_of(graph, y, {{x, data}}, {.device_memory = 3_MiB - 1, .threads = 1});
  EXPECT_THAT(text, AllOf(HasSubstr("matmul 'matmul' alone needs"), HasSubstr("make the batch smaller"),
                          HasSubstr("no cut into sections helps"), Not(HasSubstr("swap_variables"))));
}

TEST(BudgetAdvice, AnOutputThatLiesOverOneInputSavesNothingOverAnother) {
  Graph graph;
  const Value x = placeholder(graph, "x", {64, 8, 8, 64}), dy = placeholder(graph, "dy", {64, 8, 8, 64});
  const HostTensor data(Dtype::f32, {64, 8, 8, 64});
  const Value y = batch_norm(x, constant(graph, HostTensor::scalar(true)));
  const Value dx = gradients(reduce_sum(y * relu(dy)), {x}).front();
  Session session(graph, {.device_memory = 1_GiB, .threads = 1});
  session.initialize();
  // batch_norm_grad reads x and dy, and dx lies over one of them: it could not lie over both.
  const ProgramReport report = session.plan({dx}, {{x, data.shape()}, {dy, data.shape()}});
  EXPECT_THAT(report.largest_operation.name, HasSubstr("batch_norm_grad"));
  EXPECT_GT(report.largest_operation.bytes, 2_MiB);
}

/// Several tensors of 1 MiB alive at once, of which no operation needs more than three.
struct ManyAlive {
  Graph graph;
  Value x = placeholder(graph, "x", {512, 512});
  HostTensor data{Dtype::f32, {512, 512}};
  Value a = relu(x), b = tanh(x), c = sigmoid(x);
  Value y = (a + b) * c * (a * b);
};

TEST(BudgetAdvice, WhereACutMayHelpItIsAdvised) {
  ManyAlive m;
  const Value w = variable("w", fill(m.graph, {1}, 1));
  const Operation count = assign(w, reshape(reduce_sum(m.y), {1}));
  const std::vector<Operation> training = minimize(Sgd{}, reduce_sum(m.y) * reduce_sum(w), {w});
  Session session(m.graph, {.device_memory = 3_MiB + 1000, .threads = 1});
  session.initialize();
  EXPECT_THAT(([&] {
                session.run({{m.x, m.data}}, {.targets = training});
              }),
              ThrowsMessage<BudgetError>(AllOf(HasSubstr("cut the graph into sections"),
                                               HasSubstr("fit_budget(session)"), Not(HasSubstr("alone")))));
  // An evaluation that counts is no training.
  EXPECT_THAT(([&] {
                session.run({{m.x, m.data}}, {.targets = {count}});
              }),
              ThrowsMessage<BudgetError>(AllOf(HasSubstr("fit_budget(session)"), Not(HasSubstr("train")))));
}

/// The hint for a sum of several activations of x, fed with `data`, where a byte is missing.
std::string hint_of_sum(Graph& graph, Value x, Value others, const Feeds& feeds) {
  const Value y = reduce_sum((tanh(x) + sigmoid(x)) * exp(x) * (tanh(x) * sigmoid(x))) + others;
  const std::size_t least = Session(graph, {.threads = 1}).plan({y}, types_of(feeds)).planned_peak_bytes;
  return hint_of(graph, y, feeds, {.device_memory = least - 1, .threads = 1});
}

TEST(BudgetAdvice, ABatchOfOneIsNotToBeMadeSmaller) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, kDynamic, 16});
  const Value none = fill(graph, {}, 0);
  EXPECT_THAT(hint_of_sum(graph, x, none, {{x, HostTensor(Dtype::f32, {1, 100, 16})}}),
              AllOf(HasSubstr("dimensions that the graph leaves open"), Not(HasSubstr("batch"))));
  EXPECT_THAT(hint_of_sum(graph, x, none, {{x, HostTensor(Dtype::f32, {2, 100, 16})}}),
              HasSubstr("make the batch smaller"));
  // What is fed beside it in one size is no batch.
  const Value table = placeholder(graph, "table", {64, 64});
  EXPECT_THAT(hint_of_sum(graph, table, reduce_sum(x),
                          {{x, HostTensor(Dtype::f32, {1, 1, 16})}, {table, HostTensor(Dtype::f32, {64, 64})}}),
              AllOf(Not(HasSubstr("batch")), Not(HasSubstr("leaves open"))));
  ProgramReport report;
  report.planned_peak_bytes = 2_MiB;
  report.budget_bytes = 1_MiB;
  report.advice = "cut the graph into more sections near this step";
  EXPECT_EQ(hint_of(report), report.advice + ", or make the batch smaller");
  report.has_batch = false;
  EXPECT_EQ(hint_of(report), report.advice);
}

TEST(BudgetAdvice, AMinimumThatIsNotKnownIsToldAsAtLeastThatAndWithTheHostsNeed) {
  ProgramReport report;
  report.planned_peak_bytes = 2_MiB;
  report.budget_bytes = 1_MiB;
  EXPECT_THAT([&] { throw_budget_error(report); },
              ThrowsMessage<BudgetError>(HasSubstr("minimum: device_memory of 2097152 bytes")));
  report.minimum_is_exact = false;
  EXPECT_THAT([&] { throw_budget_error(report); },
              ThrowsMessage<BudgetError>(AllOf(HasSubstr("needs 2.00 MiB (2097152 bytes) as it was planned, device"),
                                               HasSubstr("2097152 bytes, which does; less may, by another plan"))));
  report.minimum_is_enough = false;
  report.host_peak_bytes = 200;
  report.host_budget_bytes = 100;
  EXPECT_THAT([&] { throw_budget_error(report); },
              ThrowsMessage<BudgetError>(AllOf(HasSubstr("the program needs at least 2.00 MiB (2097152 bytes), device"),
                                               HasSubstr("minimum: device_memory of at least 2097152 bytes"),
                                               HasSubstr("; and 200 B (200 bytes) of host memory, host_memory is"))));
}

TEST(BudgetAdvice, ARunThatChangesNothingIsNotToldToTrain) {
  ManyAlive m;
  EXPECT_THAT(hint_of(m.graph, m.y, {{m.x, m.data}}, {.device_memory = 3_MiB + 1000, .threads = 1}),
              AllOf(HasSubstr("fit_budget(session)"), HasSubstr("make the batch smaller"), Not(HasSubstr("train"))));
  ProgramReport report;
  report.planned_peak_bytes = 2_MiB;
  report.budget_bytes = 1_MiB;
  report.trains = false;
  report.in_sections = true;
  // A forward half is planned with its backward half, and needs more than the run more often than less.
  EXPECT_THAT(hint_of(report), AllOf(Not(HasSubstr("run_forward")), Not(HasSubstr("train"))));
  report.in_sections = report.has_batch = false;
  report.may_swap = true;
  EXPECT_EQ(hint_of(report), "give more device_memory");
}

TEST(BudgetAdvice, AGraphEditedByLmsIsNotToldToTrainInSections) {
  Graph graph;
  const Value large = placeholder(graph, "large", {64, 64});
  const Value a = relu(large), b = tanh(large), back = swap_in(swap_out(a));
  const Value y = (a + b) * sigmoid(large) * back;
  const Operation update = assign(variable("w", fill(graph, {1}, 1)), reshape(reduce_sum(y), {1}));
  const FeedTypes types = {{large, {64, 64}}};
  const std::size_t least = Session(graph, {.threads = 1}).plan({}, types, {.targets = {update}}).planned_peak_bytes;
  Session session(graph, {.device_memory = least - 1, .threads = 1});
  session.initialize();
  const HostTensor data(Dtype::f32, {64, 64});
  EXPECT_THAT(([&] {
                session.run({{large, data}}, {.targets = {update}});
              }),
              ThrowsMessage<BudgetError>(AllOf(HasSubstr("swapout_threshold"), Not(HasSubstr("run_full_cycle")),
                                               Not(HasSubstr("insert_swaps")))));
}

TEST(BudgetAdvice, WhatIsAsLargeInAnyBatchIsNotHelpedByASmallerOne) {
  constexpr std::size_t kBytes = 200 * 600 * sizeof(float);  // of a variable, and of its gradient in any batch
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 200});
  const Value a = variable("a", fill(graph, {200, 600}, 1));
  const Value loss = reduce_mean(matmul(x, a));
  const std::vector<Operation> training = minimize(Sgd{}, loss);
  Session session(graph, {.threads = 1});
  ProgramReport report = session.plan({loss}, {{x, {4, 200}}}, {.targets = training});
  EXPECT_EQ(report.largest_fixed_bytes, kBytes);
  EXPECT_TRUE(report.has_batch && report.batch_changes_largest);
  report.budget_bytes = report.persistent_bytes + report.largest_fixed_bytes;
  EXPECT_THAT(hint_of(report), HasSubstr("make the batch smaller"));
  --report.budget_bytes;
  EXPECT_THAT(hint_of(report), AllOf(HasSubstr("no other batch helps"), Not(HasSubstr("make the batch smaller"))));

  // The norm needs two gradients at once, initial values one place besides the variables.
  const Value b = variable("b", fill(graph, {200, 600}, 1));
  const Value both = loss + reduce_mean(matmul(x, b));
  const std::vector<Operation> clipped =
      apply_gradients(Sgd{}, clip_by_global_norm(compute_gradients(both), 1).gradients);
  Session small(graph, {.device_memory = 4 * kBytes - 1, .threads = 1});
  small.initialize();
  const HostTensor one(Dtype::f32, {1, 200});
  EXPECT_THAT(([&] {
                small.run({both}, {{x, one}}, {.targets = clipped});
              }),
              ThrowsMessage<BudgetError>(AllOf(HasSubstr("global_norm"), HasSubstr("no other batch helps"),
                                               Not(HasSubstr("make the batch smaller")))));
}

TEST(BudgetAdvice, HostMemoryThatIsTooSmallForInitialValuesIsToldAsThatOfInitialize) {
  Graph graph;
  variable("w", fill(graph, {1000}, 1));
  Session session(graph, {.host_memory = 100, .swap_variables = true, .threads = 1});
  EXPECT_THAT([&] { session.initialize(); },
              ThrowsMessage<BudgetError>(AllOf(HasSubstr("session.initialize() needs 3.91 KiB (4000 bytes) of host"),
                                               HasSubstr("what is run then may need more"))));
}

TEST(BudgetAdvice, AnOperationThatAnotherPlanWouldComputeInPlaceIsNotAlone) {
  Graph graph;
  const Value x = placeholder(graph, "x", {512, 512});
  const HostTensor data(Dtype::f32, {512, 512});
  // The relu leaves its input for the other sum, which a section might compute again.
  const Value a = tanh(x);
  const Value first = reduce_sum(relu(a)), second = reduce_sum(a);
  const Value y = first + second;
  EXPECT_THAT(hint_of(graph, y, {{x, data}}, {.device_memory = 1500_KiB, .threads = 1}),
              AllOf(HasSubstr("fit_budget(session)"), Not(HasSubstr("alone"))));
}

/// A report of a program whose host tier is too small.
ProgramReport of_host(std::size_t disk) {
  ProgramReport report;
  report.budget_bytes = 1_MiB;
  report.planned_peak_bytes = 1000;
  report.host_budget_bytes = 100;
  report.host_peak_bytes = 200;
  report.disk_budget_bytes = disk;
  report.largest_on_host = {"relu", "f32[20]", 80};
  report.fits = false;
  return report;
}

TEST(BudgetAdvice, ADiskIsAdvisedWhereThereIsNone) {
  EXPECT_THAT(hint_of(of_host(0)), HasSubstr("a disk (SessionOptions::disk)"));
  EXPECT_THAT(hint_of(of_host(1_MiB)), AllOf(HasSubstr("more host memory"), Not(HasSubstr("disk"))));
  ProgramReport report = of_host(0);
  report.host_peak_bytes = 50;
  report.disk_peak_bytes = 10;
  EXPECT_THAT(hint_of(report), AllOf(HasSubstr("SessionOptions::disk"), Not(HasSubstr("larger disk"))));
  report.disk_budget_bytes = 5;
  EXPECT_THAT(hint_of(report), HasSubstr("a larger disk"));
}

TEST(BudgetAdvice, WhereOffloadsAreForcedMoreDeviceMemoryIsNotAdvised) {
  ProgramReport report = of_host(0);
  EXPECT_THAT(hint_of(report), HasSubstr("more device memory"));
  report.forces_offloads = true;
  EXPECT_THAT(hint_of(report), AllOf(HasSubstr("BorderPolicy::automatic"), Not(HasSubstr("device memory"))));
  report.largest_on_host.bytes = 101;
  EXPECT_THAT(hint_of(report), AllOf(HasSubstr("BorderPolicy::automatic"), HasSubstr("make the batch smaller"),
                                     Not(HasSubstr("device memory"))));
  report.has_batch = false;
  EXPECT_THAT(hint_of(report), Not(HasSubstr("batch")));
  report.is_edited = true;
  EXPECT_THAT(hint_of(report), AllOf(HasSubstr("higher swapout_threshold"), Not(HasSubstr("BorderPolicy"))));
}

TEST(BudgetAdvice, ADiskThatIsTooSmallBesideHostMemoryIsToldToo) {
  ProgramReport report = of_host(50);
  EXPECT_THAT(hint_of(report), HasSubstr("a larger disk, which is too small for this too (50 B)"));
  report.disk_peak_bytes = 60;
  EXPECT_THAT([&] { throw_budget_error(report); }, ThrowsMessage<BudgetError>(HasSubstr("disk is 50 B (50 bytes)")));
}

TEST(BudgetAdvice, ATensorThatHostMemoryIsTooSmallForIsNamed) {
  ProgramReport report = of_host(1_MiB);
  report.largest_on_host.bytes = 101;
  EXPECT_THAT(hint_of(report), AllOf(HasSubstr("'relu' f32[20] (101 B) alone"), HasSubstr("on its way to the disk")));
  report.disk_budget_bytes = 0;
  EXPECT_THAT(hint_of(report), AllOf(HasSubstr("'relu' f32[20]"), Not(HasSubstr("disk"))));
  report.host_persistent_bytes = 101;
  EXPECT_THAT(hint_of(report), AllOf(HasSubstr("the variables"), HasSubstr("leave swap_variables out")));
}

TEST(BudgetAdvice, ATensorThatCannotLeaveTheDeviceForWantOfHostMemoryIsNamed) {
  ProgramReport report = of_host(1_MiB);
  report.host_peak_bytes = 0;
  report.planned_peak_bytes = 2_MiB;
  report.largest_live = {{"of this operation", "scratch", 500}, {"conv2d", "f32[90]", 360}};
  EXPECT_THAT(hint_of(report), AllOf(HasSubstr("host_memory of 100 B is too small for 'conv2d' f32[90]"),
                                     HasSubstr("at least 360 bytes"), HasSubstr("cut the graph")));
  // Neither what lies there already, in whole pages, nor the policies that keep the tensor are forgotten.
  report.host_budget_bytes = 400;
  report.host_persistent_bytes = 64;
  report.advice = "offload border tensors to host memory, or make the batch smaller";
  EXPECT_THAT(hint_of(report), AllOf(HasSubstr("at least 4456 bytes"), HasSubstr(report.advice)));
  report.host_persistent_bytes = 0;
  report.advice.clear();
  report.host_budget_bytes = 360;
  EXPECT_THAT(hint_of(report), AllOf(HasSubstr("cut the graph into sections"), Not(HasSubstr("host_memory"))));
}

}  // namespace
}  // namespace sectionflow
