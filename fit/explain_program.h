#pragma once

#include "fit/explain.h"
#include "schedule/program.h"
#include "swap/step_times.h"

namespace sectionflow {

/// What becomes of every tensor of a program, and what its fullest step is made of: all of an explanation but price and
/// frontier. `graph`: of the program; `times`: of its steps.
Explanation explain_program(const Program& program, const ConcreteGraph& graph, StepTimes& times);

}  // namespace sectionflow
