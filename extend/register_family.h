#pragma once

#include <functional>

#include "autodiff/gradient_registry.h"
#include "base/error.h"
#include "base/export.h"
#include "graph/op_registry.h"
#include "kernels/kernel_registry.h"

namespace SF_API sectionflow {

/// Operations of one's own that belong together, such as one and its gradient's: the same functions that a family of
/// the library consists of (docs/adding_an_op.md). Each is called once, with an empty registry.
struct OpFamily {
  std::function<void(OpRegistry&)> define{};                ///< what they mean: names, shapes, options, traits
  std::function<void(GradientRegistry&)> add_gradients{};   ///< absent: none of them has a gradient
  std::function<void(KernelRegistry&)> add_cpu_kernels{};   ///< absent: they run on GPUs alone
  std::function<void(KernelRegistry&)> add_cuda_kernels{};  ///< absent: they run on the CPU alone
};

/// Adds the family to those of the library: graphs, gradients, sections, swaps, files and plans know its ops from then
/// on as they know the library's own. All of it is added, or nothing.
///
/// Names: that of each op is its library's and its own with a dot between, "acme.swish", of lower-case letters, digits
/// and underscores. Ops of SectionFlow have no dot, so none of them is ever meant.
///
/// When: before the process makes its first Session, whose programs rely on what is registered; in main, say, or from a
/// function that the program calls first. Graphs that were built before stay as they are, and may use it too.
///
/// Threads: while no other thread uses SectionFlow.
///
/// Throws: ArgumentError (SF-E013) for a name that is of another form or taken; an op without a shape rule, without a
/// kernel, or with traits that exclude each other or are for the library alone; a gradient or kernel for an op that the
/// family does not define. ArgumentError (SF-E014) once there has been a session. And what the functions throw.
void register_family(const OpFamily& family, Where where = Where::here());

/// Whether register_family may still be called: no session has been made.
bool registration_is_open();

}  // namespace sectionflow
