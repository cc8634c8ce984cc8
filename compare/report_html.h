#pragma once

#include <string>

#include "base/error.h"
#include "base/export.h"
#include "compare/compare_strategies.h"

namespace SF_API sectionflow {

/// A page that shows what was found: the table, and for each strategy what lay where in the course of a cycle. It is
/// one file that needs no other, no network and no scripts, and reads well on a phone and on paper.
std::string report_html(const Comparison& comparison);

/// Writes the page to `folder`/index.html, whole or not at all, and makes the folder. Throws: DataError when it cannot.
void write_report(const Comparison& comparison, const std::string& folder, Where where = Where::here());

}  // namespace sectionflow
