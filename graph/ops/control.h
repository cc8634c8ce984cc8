#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// then() where `flag` is true, otherwise() where it is not, as values of the graph: both are built here, and a run
/// executes one of them, forward and backward. Nothing of the other is in its plan, and feeds that only the other needs
/// need not be fed. `flag` is known before a run: a placeholder bool [], fed true or false from run to run, a constant,
/// or Graph::training(); each of its values is a program of its own. `select` takes elements by what is computed.
///
///     y = cond(graph.training(), [&] { return dropout(x, {.rate = 0.5F}); }, [&] { return x; });
///
/// What is built in a branch may read what is outside, nested conds included; from outside, or from the other branch,
/// only what the callables return is read, as what cond gives. Updates, prints and assertions of a branch have no
/// effect where it is not taken. Variables that a branch makes are there whatever is taken. Where it is not, they get a
/// gradient of zeros, which optimisers take as any other: what decays weights or goes on by momentum still moves them.
/// Shapes: flag bool []; the results of both callables have one dtype, and shapes that may be equal: a size that one of
/// them knows is that of the result, and feeds decide the others for what is taken; the result is like both. Any dtype.
/// Throws: ArgumentError for a flag that is computed, and what the callables throw; the graph then is as it was.
/// ShapeError for results of types that differ.
Value cond(Value flag, const std::function<Value()>& then, const std::function<Value()>& otherwise,
           Where where = Where::here());
/// The same of several values: both callables give as many. They may give none, where updates are all they are for.
std::vector<Value> cond(Value flag, const std::function<std::vector<Value>()>& then,
                        const std::function<std::vector<Value>()>& otherwise, Where where = Where::here());

/// What an assertion says where it does not hold.
struct AssertionOptions {
  std::string text{};          ///< what was to hold: "weights are positive"
  std::vector<Value> shown{};  ///< whose first values are told, 8 at most
  int first = 8;               ///< how many values of each
};

/// x, once all elements of `condition` are true: where one is false, the run ends by an ArgumentError (SF-E312) that
/// tells the text, section, line, the first element that is false, and the first values of what is shown.
///
///     loss = assert_that(loss, weights > 0.0F, {.text = "weights are positive", .shown = {weights}});
///
/// It is looked at where the result is computed, once per cycle: a recomputation passes x on unasked. Found before the
/// first update of a cycle nothing has changed; behind it, moving averages' included, the session is torn (SF-E323).
/// Costs a pass over the condition, and a copy of x where others than the readers of the result still need it: pass
/// something small on, such as the loss. On a GPU also a wait and a copy of the condition to the host; its cycles are
/// not recorded. Shapes: any; x and what is shown of any dtype, condition bool; result like x. The gradient passes to
/// x. Throws: ArgumentError for a condition of another dtype, more shown than 8, and first < 0.
Value assert_that(Value x, Value condition, AssertionOptions options = {}, Where where = Where::here());

}  // namespace sectionflow
