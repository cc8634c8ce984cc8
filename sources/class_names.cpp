#include "sources/class_names.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"
#include "base/whole_file.h"
#include "data/tfrecord_source.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNameBytes = 64_MiB;

/// "0:cat". White space belongs to the name, as it does to a folder's that a class is called by.
void add_line(std::string_view line, const std::string& where, ClassNames& names) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.find_first_not_of(" \t") == std::string_view::npos) return;
  std::int64_t label = 0;
  const char* const end = line.data() + line.size();
  const auto [stop, failed] = std::from_chars(line.data(), end, label);
  SF_CHECK(failed == std::errc() && stop != end && *stop == ':', DataError, where,
           "wanted a label, a colon, and the name of its class, as in 0:cat");
  const std::string_view name(stop + 1, static_cast<std::size_t>(end - stop - 1));
  SF_CHECK(names.emplace(label, std::string(name)).second, DataError, where, "the label ", label,
           " has a name on an earlier line");
}

}  // namespace

ClassNames class_names_of(const std::vector<std::string>& classes) {
  ClassNames names;
  for (const std::string& name : classes) names.emplace(static_cast<std::int64_t>(names.size()), name);
  return names;
}

void write_class_names(const fs::path& folder, const ClassNames& names) {
  std::string text;
  for (const auto& [label, name] : names) {
    SF_CHECK(name.find_first_of("\r\n") == std::string::npos, ArgumentError, "write_class_names: the name of class ",
             label, " has a line break in it");
    text += std::to_string(label) + ":" + name + "\n";
  }
  write_whole_file_in(folder, kClassNamesFile, text, "write_class_names");
}

ClassNames read_class_names(const fs::path& folder) {
  check_path(folder, "read_class_names");
  const fs::path path = folder / kClassNamesFile;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return {};
  const std::string text = read_whole_file(path, kMostNameBytes, "read_class_names");
  ClassNames names;
  std::string_view left = text;
  for (std::int64_t line = 1; !left.empty(); ++line) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    add_line(left.substr(0, end), text_of("read_class_names: '", path.string(), "': line ", line, ": "), names);
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return names;
}

ClassNames class_names_of_records(const std::vector<fs::path>& files) {
  const auto source = tfrecord_source(
      files, {{.name = "image/class/label", .dtype = Dtype::i64, .shape = {kDynamic}, .kind = FeatureKind::values},
              {.name = "image/class/text", .dtype = Dtype::u8, .shape = {kDynamic}, .kind = FeatureKind::bytes}});
  ClassNames names;
  const auto stream = source->open();
  while (const auto example = stream->next()) {
    const HostTensor &label = example->at("image/class/label"), &text = example->at("image/class/text");
    if (label.num_elements() != 1 || text.num_elements() == 0) continue;
    const auto number = label.values<std::int64_t>()[0];
    const std::string name(reinterpret_cast<const char*>(text.bytes()), text.num_bytes());
    const std::string& known = names.emplace(number, name).first->second;
    SF_CHECK(known == name, DataError, source->name(), ": class ", number, " is called '", known, "' and '", name, "'",
             hint("are the files of one data set?"));
  }
  return names;
}

}  // namespace sectionflow
