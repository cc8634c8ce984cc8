#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sectionflow {

/// Where the walk through a pipeline stands.
struct PipelinePosition {
  std::int64_t epoch = 0;             // that the walk was begun in
  std::int64_t delivered_epoch = 0;   // of what was delivered last
  std::vector<std::int64_t> numbers;  // of its stages
};

/// The position as a JSON text, with the lines that say of which pipeline it is.
std::string position_text(const PipelinePosition& position, const std::vector<std::string>& lines);

/// Reads such a text, which is not trusted. Throws: ArgumentError (SF-E403) naming the first line that differs when it
/// is of a pipeline of other lines; DataError (SF-E404) for any other text.
PipelinePosition parse_position(const std::string& text, const std::vector<std::string>& lines);

}  // namespace sectionflow
