#include "bench/named_paths.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/whole_file.h"
#include "bench/program.h"
#include "train/checkpoint_folder.h"
#include "train/checkpoint_place.h"
#include "train/checkpoint_reading.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

/// A path that is named, and where it leads.
struct Place {
  const NamedPath* named;
  fs::path plain;
  Extent extent;
  bool is_read;

  const std::string& option() const { return named->option; }
  std::string shown() const { return "'" + named->path.string() + "'"; }
};

/// lies_in of paths that are plain.
bool is_at_or_below(const fs::path& inner, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// Whether several that write into a folder may have it in common.
bool is_shared(Extent extent) {
  return extent == Extent::checkpoints || extent == Extent::own_names;
}

/// Whether a name in a folder of checkpoints is one of theirs, be it that of one that is being written.
bool is_of_checkpoints(const fs::path& name) {
  const bool is_unfinished = name.extension().string().starts_with(".sectionflow-");
  const std::string whole = (is_unfinished ? name.stem() : name).string();
  return whole == "latest" || step_of(whole).has_value();
}

/// Whether what is written at `written` would be where something of `owner` is.
bool takes_place_of(const Place& written, const Place& owner) {
  if (written.plain == owner.plain) return !is_shared(written.extent) || !is_shared(owner.extent);
  switch (owner.extent) {
    case Extent::files:
      return written.extent == Extent::file && written.plain.parent_path() == owner.plain;
    case Extent::file:
    case Extent::everything:
      return is_at_or_below(written.plain, owner.plain);
    case Extent::checkpoints:
      return is_at_or_below(written.plain, owner.plain) &&
             is_of_checkpoints(*written.plain.lexically_relative(owner.plain).begin());
    case Extent::own_names:
      return false;
  }
  return false;
}

void check_pair(const Place& written, const Place& owner) {
  if (!takes_place_of(written, owner)) return;
  const bool is_there = written.plain == owner.plain;
  const std::string what = text_of(written.option(), ": ", written.shown());
  const bool is_file = owner.extent == Extent::file;
  SF_CHECK(!is_there || (owner.is_read && !is_file), ArgumentError, what, " is that of ", owner.option(),
           " too, which it would replace", hint("give it another name"));
  SF_CHECK(!is_file, ArgumentError, what, " lies in ", owner.shown(), ", which is the file of ", owner.option(),
           hint("give it another name"));
  SF_CHECK(is_there || owner.extent != Extent::checkpoints, ArgumentError, what, " has a name of the checkpoints in ",
           owner.shown(), ", the folder of ", owner.option(), hint("give it another name"));
  throw ArgumentError(error_text_of(what, is_there ? " is " : " lies in ", owner.shown(), ", the folder of ",
                                    owner.option(), ", and would be taken for what is in it, or replace it",
                                    hint("give a folder beside it")));
}

/// Throws: ArgumentError for a file that a checkpoint has, whoever wrote it.
void check_no_checkpoint(const Place& written) {
  std::error_code failed;
  if (written.extent != Extent::file || !fs::exists(written.plain, failed)) return;
  const fs::path folder = written.plain.parent_path();
  const bool is_latest = written.plain.filename() == "latest" && !CheckpointFolder(folder).steps().empty();
  SF_CHECK(!is_latest && !is_checkpoint(folder), ArgumentError, written.option(), ": ", written.shown(),
           is_latest ? " tells which of the checkpoints beside it is the latest" : " is a file of a checkpoint",
           hint("give it another name"));
}

/// The links in a folder that is read are read as what they lead to.
void add_links(const Place& folder, std::vector<Place>& places) {
  std::error_code failed;
  for (auto entry = fs::directory_iterator(folder.plain, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    std::error_code ignored;
    if (!entry->is_symlink(ignored)) continue;
    const bool is_folder = entry->is_directory(ignored);
    if (is_folder && folder.extent == Extent::files) continue;
    places.push_back({folder.named, plain_path(entry->path()), is_folder ? folder.extent : Extent::file, true});
  }
}

std::vector<Place> places_of(const std::vector<NamedPath>& named, bool are_read) {
  std::vector<Place> places;
  for (const NamedPath& each : named) {
    const bool is_stream = each.option == "--json" && is_standard_output(each.path.string());
    std::error_code failed;
    // Devices, as /dev/null, take any number of files.
    if (each.path.empty() || is_stream || fs::is_character_file(each.path, failed)) continue;
    const Place place{&each, plain_path(each.path), each.extent, are_read};
    places.push_back(place);
    if (are_read && (each.extent == Extent::files || each.extent == Extent::everything)) add_links(place, places);
  }
  return places;
}

}  // namespace

fs::path plain_path(const fs::path& path) {
  const auto without_links = [](const fs::path& each) {
    std::error_code failed;
    const fs::path found = fs::weakly_canonical(absolute_path(each), failed);
    const fs::path plain = failed ? absolute_path(each).lexically_normal() : found;
    return plain.has_filename() ? plain : plain.parent_path();
  };
  constexpr int kMostLinks = 40;  // as the kernel's
  fs::path plain = without_links(path);
  // What stays a link leads to what is not there, and would be made there.
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code failed;
    const fs::path target = fs::read_symlink(plain, failed);
    if (failed) break;
    plain = without_links(plain.parent_path() / target);
  }
  return plain;
}

bool lies_in(const fs::path& inner, const fs::path& outer) {
  return is_at_or_below(plain_path(inner), plain_path(outer));
}

void check_apart(const std::vector<NamedPath>& read, const std::vector<NamedPath>& written) {
  const std::vector<Place> inputs = places_of(read, true), outputs = places_of(written, false);
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    for (const Place& input : inputs) {
      check_pair(*output, input);
      // What comes with checkpoints under a name of theirs takes the place of what is read there.
      if (output->extent == Extent::checkpoints) check_pair(input, *output);
    }
    check_no_checkpoint(*output);
    for (auto before = outputs.begin(); before != output; ++before) {
      check_pair(*output, *before);
      check_pair(*before, *output);
    }
  }
}

}  // namespace sectionflow
