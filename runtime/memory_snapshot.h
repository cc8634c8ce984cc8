#pragma once

#include <string>

#include "base/error.h"
#include "base/export.h"
#include "runtime/session.h"
#include "runtime/trace.h"

namespace SF_API sectionflow {

/// Writes what lies where in device memory in the course of the last execution of a trace, for the page
/// https://pytorch.org/memory_viz, which shows such files in the browser, and for PyTorch's _memory_viz.py. `trace` is
/// of the program that the session planned or ran last: measured (Session::set_trace) or planned (planned_trace).
///
/// The arena is one segment of the budget's size, or, without a budget, as large as the plan's peak. Categories are
/// sections; frames name the tensors that share the bytes, with their section, and the step that begins them as the
/// line. The file is a Python pickle of plain values.
/// Throws: ArgumentError for a session that has planned and run nothing, and (SF-E433) for a trace that ends with
/// something else; DataError when the file cannot be written; what was there is then as it was.
void write_memory_snapshot(const std::string& path, const Session& session, const Trace& trace,
                           Where where = Where::here());

}  // namespace sectionflow
