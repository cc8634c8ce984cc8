#pragma once

#include "runtime/executor.h"

namespace sectionflow {

/// Looks at what a step has written, if it computes: its floating point outputs and the variables that it has changed.
/// Variables of which another tells are left out. On a device with queues waits for the step and copies them to the
/// host. Throws: ArgumentError (SF-E605) for the first element that `context.checks` refuses, naming operation,
/// section, tensor and element, with what the operation was given as a fact.
void check_step_values(const Executable& program, StepIndex index, ExecutionContext& context);

/// Looks at the condition of an assertion (assert_that), if the step is the first execution of one. On a device with
/// queues waits for the step and copies the condition to the host. Throws: ArgumentError (SF-E312) for the first
/// element that is false, naming the assertion, its text, place and element, with what it shows as a fact.
void check_assertion(const Executable& program, StepIndex index, ExecutionContext& context);

}  // namespace sectionflow
