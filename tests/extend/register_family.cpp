#include "extend/register_family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/error.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "graph/shape_rules.h"
#include "runtime/session.h"
#include "tests/extend/acme.h"

namespace sectionflow {
namespace {

using acme::family_of;
using testing::AllOf;
using testing::HasSubstr;

/// The number of everything that a registration could have added.
std::vector<std::size_t> registered() {
  return {op_registry().all().size(), gradient_registry().all().size(), kernel_registry(DeviceKind::cpu).ops().size()};
}

/// Registers what must be refused, which must change nothing: the error's text.
std::string refusal_of(const OpFamily& family) {
  const std::vector<std::size_t> before = registered();
  try {
    register_family(family);
  } catch (const ArgumentError& error) {
    EXPECT_EQ(registered(), before) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

/// The same for an op whose definition was changed.
template <class Change>
std::string refusal_of_definition(const Change& change) {
  OpFamily family = family_of("acme.changed");
  family.define = [&](OpRegistry& registry) {
    OpDef op{.name = "acme.changed", .infer = infer_like_float};
    change(op);
    registry.add(std::move(op));
  };
  return refusal_of(family);
}

TEST(RegisterFamily, NamesAreThoseOfALibraryAndAnOp) {
  for (const std::string name :
       {"swish", "", ".", "acme.", ".swish", "Acme.swish", "acme.a.b", "acme swish", "acme.sw-ish", "9.swish"}) {
    EXPECT_THAT(refusal_of(family_of(name)),
                AllOf(HasSubstr("SF-E013"), HasSubstr("'" + name + "'; wanted its library's name, a dot")))
        << name;
  }
}

TEST(RegisterFamily, ATakenNameIsRefusedWithTheEarlierPlace) {
  EXPECT_THAT(refusal_of(family_of("acme.twice")),
              AllOf(HasSubstr("SF-E013"), HasSubstr("'acme.twice' is registered already"), HasSubstr("acme.cpp:"),
                    HasSubstr("register_family.cpp:")));
  OpFamily twins = family_of("acme.twin");
  twins.define = [](OpRegistry& registry) {
    for (int i = 0; i < 2; ++i) registry.add({.name = "acme.twin", .infer = infer_like_float});
  };
  EXPECT_THAT(refusal_of(twins), AllOf(HasSubstr("SF-E013"), HasSubstr("'acme.twin' is defined twice")));
}

TEST(RegisterFamily, NoOpOfTheLibraryHasANameOfThisForm) {
  for (const auto& [name, definition] : op_registry().all()) {
    EXPECT_EQ(name.find('.') != std::string::npos, name.starts_with("acme.")) << name;
  }
}

TEST(RegisterFamily, DefinitionsThatCannotWorkAreRefused) {
  const auto expect = [](const std::string& text, const std::string& what) {
    EXPECT_THAT(text, AllOf(HasSubstr("SF-E013"), HasSubstr("'acme.changed'"), HasSubstr(what)));
  };
  expect(refusal_of_definition([](OpDef& op) { op.infer = nullptr; }), "has no shape rule");
  expect(refusal_of_definition([](OpDef& op) { op.role = OpRole::variable; }), "is a variable");
  expect(refusal_of_definition([](OpDef& op) { op.movement = Movement::out; }), "moves tensors");
  expect(refusal_of_definition([](OpDef& op) { op.has_kernel = false; }), "says that it has no kernel");
  expect(refusal_of_definition([](OpDef& op) { op.options.type = &typeid(int); }), "can only be written");
  expect(refusal_of_definition([](OpDef& op) { op.updated_inputs = {0}; }), "may be executed again");
  expect(refusal_of_definition([](OpDef& op) { op.communicates = true; }), "communicates");
  expect(refusal_of_definition([](OpDef& op) { op.kept_outputs = {-1}; }), "negative output");
  expect(refusal_of_definition([](OpDef& op) { op.inputs = {2, 1}; }), "takes from 2 to 1 inputs");
  expect(refusal_of_definition([](OpDef& op) {
           op.updated_inputs = {1};
           op.recompute = Recompute::once;
         }),
         "names input 1 in updated_inputs; wanted 0 to 0");
  expect(refusal_of_definition([](OpDef& op) {
           op.updated_inputs = {0};
           op.left_by_update = {LeftByUpdate::own, LeftByUpdate::seen};
           op.recompute = Recompute::once;
         }),
         "says of 2 updated inputs what is left in them, and updates 1");
  expect(refusal_of_definition([](OpDef& op) {
           op.updated_inputs = {0};
           op.left_by_update = {LeftByUpdate::seen};
           op.recompute = Recompute::once;
         }),
         "that the first one shows what is left");
}

TEST(RegisterFamily, AnOpWithoutAKernelIsRefused) {
  OpFamily family = family_of("acme.idle");
  family.add_cpu_kernels = nullptr;
  EXPECT_THAT(refusal_of(family), AllOf(HasSubstr("SF-E013"), HasSubstr("'acme.idle' has no kernel")));
  family.add_cpu_kernels = [](KernelRegistry& registry) { registry.add("acme.idle", nullptr); };
  EXPECT_THAT(refusal_of(family), AllOf(HasSubstr("SF-E013"), HasSubstr("'acme.idle' got a null pointer")));
  family.define = nullptr;
  EXPECT_THAT(refusal_of(family), HasSubstr("without a function that defines its ops"));
  family.define = [](OpRegistry&) {};
  EXPECT_THAT(refusal_of(family), HasSubstr("defines no op"));
}

TEST(RegisterFamily, IsRefusedWithinAFunctionOfAnotherFamily) {
  OpFamily family = family_of("acme.outer");
  const auto define = family.define;
  family.define = [define](OpRegistry& registry) {
    define(registry);
    register_family(family_of("acme.inner"));
  };
  EXPECT_THAT(refusal_of(family), AllOf(HasSubstr("SF-E013"), HasSubstr("called by a function of another family")));
  EXPECT_FALSE(op_registry().all().contains("acme.inner"));
  EXPECT_THAT(refusal_of(family), HasSubstr("called by a function of another family")) << "it is not inside any more";
}

TEST(RegisterFamily, RulesAndKernelsOfOtherOpsAreRefused) {
  for (const std::string other : {"relu", "acme.twice", "acme.nobody"}) {
    OpFamily family = family_of("acme.new");
    family.add_gradients = [&](GradientRegistry& registry) { registry.add_zero(other); };
    EXPECT_THAT(refusal_of(family), HasSubstr("a gradient rule for the op '" + other + "', which this family"));
    family.add_gradients = nullptr;
    family.add_cuda_kernels = [&](KernelRegistry& registry) {
      registry.add(other, [](const KernelRequest&) { return std::unique_ptr<Kernel>(); });
    };
    EXPECT_THAT(refusal_of(family), HasSubstr("a kernel of CUDA for the op '" + other + "', which this family"));
  }
  OpFamily family = family_of("acme.new");
  family.add_gradients = [](GradientRegistry& registry) { registry.add("acme.new", nullptr); };
  EXPECT_THAT(refusal_of(family), HasSubstr("'acme.new' got a gradient rule that is empty"));
  family.add_gradients = [](GradientRegistry& registry) {
    registry.add("acme.new", [](const GradientRequest& r) { return std::vector{r.dy()}; }, {.zero_inputs = {1}});
  };
  EXPECT_THAT(refusal_of(family), HasSubstr("names input 1 in zero_inputs; wanted 0 to 0"));
}

TEST(RegisterFamily, WhatAFunctionOfTheFamilyThrowsChangesNothing) {
  OpFamily family = family_of("acme.thrown");
  family.add_gradients = [](GradientRegistry&) { throw std::runtime_error("no gradients today"); };
  const std::vector<std::size_t> before = registered();
  EXPECT_THROW(register_family(family), std::runtime_error);
  EXPECT_EQ(registered(), before);
}

TEST(RegisterFamily, AfterTheFirstSessionItIsTooLate) {
  Graph graph;
  const Session session(graph, {.device_memory = 1_MiB, .threads = 1});
  EXPECT_FALSE(registration_is_open());
  EXPECT_THAT(refusal_of(family_of("acme.late")),
              AllOf(HasSubstr("SF-E014"), HasSubstr("after the first session"), HasSubstr("at the beginning of main"),
                    HasSubstr("register_family.cpp:")));
}

TEST(RegisterFamily, AGraphThatWasBegunBeforeKnowsTheOps) {
  acme::EarlyGraph& early = acme::early_graph();
  const Value y = acme::twice(relu(early.x));
  Session session(early.graph, {.device_memory = 1_MiB, .threads = 1});
  session.initialize();
  const auto [found] = session.run({y}, {{early.x, HostTensor::of<float>({2, 3}, {1, -2, 3, -4, 5, -6})}});
  EXPECT_TRUE(bitwise_equal(found, HostTensor::of<float>({2, 3}, {2, 0, 6, 0, 10, 0})));
}

}  // namespace
}  // namespace sectionflow
