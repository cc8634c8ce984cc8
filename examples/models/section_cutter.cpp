#include "examples/models/section_cutter.h"

#include <charconv>

#include "base/error.h"

namespace sectionflow {

Cut cut_named(const std::string& name) {
  if (name == "blocks") return Cut::blocks;
  if (name == "placed") return Cut::placed;
  Cut cut;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, cut.sections);
  SF_CHECK(error == std::errc() && stop == end && cut.sections >= 1, ArgumentError, "'", name,
           "' is no cut of a network", name.starts_with("block") ? "; did you mean 'blocks'?" : "",
           hint("wanted a number of sections, as in 1, 2 or 4, or blocks"));
  return cut;
}

std::vector<bool> section_begins(const Cut& cut, int num_blocks) {
  if (cut == Cut::placed) return std::vector<bool>(static_cast<std::size_t>(num_blocks), false);
  const int sections = cut == Cut::blocks ? num_blocks : cut.sections;
  SF_CHECK(sections >= 1 && sections <= num_blocks, ArgumentError, "a network of ", num_blocks,
           " blocks cannot be cut into ", sections, " sections; try blocks, one a block");
  std::vector<bool> begins(static_cast<std::size_t>(num_blocks), false);
  for (int section = 0; section < sections; ++section) {
    begins[static_cast<std::size_t>(std::int64_t{section} * num_blocks / sections)] = true;
  }
  return begins;
}

}  // namespace sectionflow
