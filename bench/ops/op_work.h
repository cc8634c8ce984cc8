#pragma once

#include "swap/step_times.h"

namespace sectionflow::bench {

/// What one execution of a node has to compute and to move, from its types and options.
///
/// flops: additions, subtractions, multiplications, divisions, comparisons and elementary functions (e^x, ln, tanh,
/// erf, a root), one each, of the definition in the op's header: a sum of n numbers counts n. Convolutions count the
/// zeros of their padding, attention the pairs that a causal query does not see. What is only moved or converted counts
/// nothing, and neither do random numbers, indices and attention's softmax, which is little beside its products.
///
/// bytes: each operand that is read once, each result that is written once. Of a table, only the rows that are taken.
///
/// Throws: InternalError for an op of which nothing is known here.
Work op_work(const ConcreteGraph& graph, NodeId id);

}  // namespace sectionflow::bench
