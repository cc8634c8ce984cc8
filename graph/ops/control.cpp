#include "graph/ops/control.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graph/nodes/control.h"
#include "graph/op_registry.h"
#include "graph/ops/basic.h"
#include "graph/option_fields.h"

namespace sectionflow {
namespace {

constexpr int kMostShown = 8;

void check_flag(const TensorType& flag, const std::string& label) {
  SF_CHECK(flag == (TensorType{Dtype::boolean, {}}), ArgumentError, label, ": the flag is ", flag.text(),
           "; wanted bool[], a placeholder or constant");
}

/// The type of two values that are one or the other: what one of them leaves open, the other tells.
TensorType agreed(const TensorType& a, const TensorType& b, const std::string& label) {
  SF_CHECK(may_agree(a, b), ShapeError, label, " got ", a.text(), " and ", b.text(),
           "; wanted two of one dtype and shape", hint("cast, reshape or broadcast one of them in its branch"));
  std::vector<std::int64_t> dims = a.shape.dims();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == kDynamic) dims[i] = b.shape.dims()[i];
  }
  return {a.dtype, Shape(std::move(dims))};
}

std::vector<TensorType> infer_agreed(const ShapeRequest& r) {
  check_flag(r.inputs[2], r.label);
  return {agreed(r.inputs[0], r.inputs[1], r.label)};
}

/// What is read where the flag is not known is what may be read.
InputUse data_unless(std::optional<bool> flag, bool left_out) {
  return flag == left_out ? InputUse::unused : InputUse::data;
}

void check_assertion(const AssertionNodeOptions& options, std::size_t num_shown, const std::string& label) {
  SF_CHECK(options.first >= 0, ArgumentError, label, ": first is ", options.first, "; wanted >= 0");
  SF_CHECK(num_shown <= kMostShown, ArgumentError, label, " shows ", num_shown, " values; wanted ", kMostShown,
           " at most");
}

std::vector<TensorType> infer_assertion(const ShapeRequest& r) {
  check_assertion(r.get<AssertionNodeOptions>(), r.inputs.size() - 2, r.label);
  SF_CHECK(r.inputs[1].dtype == Dtype::boolean, ArgumentError, r.label, ": the condition is ", r.inputs[1].text(),
           "; wanted bool", hint("compare something, as in x > 0.0F"));
  return {r.inputs[0]};
}

/// What a callable has built, each value as one of the branch itself: gradients leave by what reads them there.
std::vector<Value> built_branch(Graph& graph, Branch branch, const std::function<std::vector<Value>()>& build,
                                Where where) {
  const auto inside = graph.enter_branch(branch);
  std::vector<Value> results = build();
  return graph.build_at(where, [&] {
    for (Value& result : results) {
      SF_CHECK(result.valid() && &result.graph() == &graph, ArgumentError, "cond: a branch gave ",
               result.valid() ? "a value of another graph" : "no value", "; wanted values of the flag's graph");
      result = value_in(result, branch);
    }
    return results;
  });
}

void check_cond(Value flag, bool has_both) {
  check_flag(flag.type(), "cond");
  SF_CHECK(is_known_on_host(flag), ArgumentError, "cond: the flag '", flag.name(), "' is computed by ",
           flag.node().op().name,
           "; wanted a boolean that is known before a run: a placeholder, a constant, or "
           "Graph::training()",
           hint("select(flag, a, b) takes elements by a boolean that is computed"));
  SF_CHECK(has_both, ArgumentError, "cond: a branch is no function; wanted two");
}

}  // namespace

void define_control_ops(OpRegistry& registry) {
  registry.add({.name = "choice",
                .options = described_by<ChoiceOptions>([](auto& /*fields*/, auto& /*options*/) {}),
                .infer =
                    [](const ShapeRequest& r) {
                      check_flag(r.inputs[0], r.label);
                      return std::vector<TensorType>{};
                    },
                .uses = [](std::size_t, HostBooleans) { return std::vector{InputUse::host_boolean}; },
                .has_kernel = false});
  registry.add({.name = "branch_value",
                .infer = [](const ShapeRequest& r) { return std::vector{r.inputs[0]}; },
                .is_identity = [](const ConcreteRequest&) { return true; }});
  registry.add({.name = "merge_branches",
                .inputs = 3,
                .infer = infer_agreed,
                .uses =
                    [](std::size_t, HostBooleans booleans) {
                      return std::vector{data_unless(booleans[2], false), data_unless(booleans[2], true),
                                         InputUse::host_boolean};
                    },
                .is_identity = [](const ConcreteRequest&) { return true; }});
  // One op for each side: which inputs are read follows from booleans alone.
  const auto leave = [&](const char* name, bool when) {
    registry.add(
        {.name = name,
         .inputs = 3,
         .infer = infer_agreed,
         .uses =
             [when](std::size_t, HostBooleans booleans) {
               return std::vector{data_unless(booleans[2], !when), InputUse::shape_only, InputUse::host_boolean};
             },
         .is_identity = [when](const ConcreteRequest& r) { return r.booleans[2] == when; }});
  };
  leave("leave_then", true);
  leave("leave_otherwise", false);
  registry.add({.name = "assert_that",
                .inputs = {2, 2 + kMostShown},
                .options = described_by<AssertionNodeOptions>([](auto& fields, auto& options) {
                  fields("text", options.text);
                  fields("first", options.first);
                }),
                .infer = infer_assertion});
}

const AssertionNodeOptions* assertion_of(const Node& node) {
  return std::any_cast<AssertionNodeOptions>(&node.any_options());
}

Value merge_branches(Value taken, Value other, Value flag, std::string_view name) {
  return flag.graph().add_node("merge_branches", {taken, other, flag}, {}, name).output();
}

Value leave_branch(Value contribution, Value like, Value flag, bool when) {
  const char* op = when ? "leave_then" : "leave_otherwise";
  return like.graph().add_node(op, {contribution, like, flag}, {}, "leave_branch").output();
}

Value value_in(Value value, Branch branch) {
  if (value.node().branch() == branch) return value;
  const auto inside = value.graph().enter_branch(branch);
  return value.graph().add_node("branch_value", {value}, {}, "branch_value").output();
}

std::vector<Value> cond(Value flag, const std::function<std::vector<Value>()>& then,
                        const std::function<std::vector<Value>()>& otherwise, Where where) {
  Graph& graph = flag.graph();
  return graph.all_or_nothing([&] {
    call_at(where, [&] { check_cond(flag, then && otherwise); });
    // Nodes of a branch keep the places of their own calls.
    const Node& choice = graph.add_node("choice", {flag}, ChoiceOptions{}, "choice", where);
    const std::vector<Value> taken = built_branch(graph, {&choice, true}, then, where);
    const std::vector<Value> other = built_branch(graph, {&choice, false}, otherwise, where);
    return graph.build_at(where, [&] {
      SF_CHECK(taken.size() == other.size(), ArgumentError, "cond: one branch gave ", taken.size(),
               " values, the other ", other.size(), "; wanted as many");
      std::vector<Value> merged;
      for (std::size_t i = 0; i < taken.size(); ++i) merged.push_back(merge_branches(taken[i], other[i], flag, "cond"));
      return merged;
    });
  });
}

Value cond(Value flag, const std::function<Value()>& then, const std::function<Value()>& otherwise, Where where) {
  const auto of_one = [](const std::function<Value()>& build) -> std::function<std::vector<Value>()> {
    if (!build) return {};
    return [&build] { return std::vector{build()}; };
  };
  return cond(flag, of_one(then), of_one(otherwise), where).front();
}

Value assert_that(Value x, Value condition, AssertionOptions options, Where where) {
  std::vector<Value> inputs = {x, condition};
  inputs.insert(inputs.end(), options.shown.begin(), options.shown.end());
  return x.graph().build_at(where, [&] {
    AssertionNodeOptions of_node{std::move(options.text), options.first};
    check_assertion(of_node, options.shown.size(), "assert_that");
    return x.graph().add_node("assert_that", std::move(inputs), std::move(of_node), "assert_that").output();
  });
}

}  // namespace sectionflow
