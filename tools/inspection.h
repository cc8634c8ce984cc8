#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "sources/class_names.h"
#include "tools/file_kind.h"

namespace sectionflow {

using Json = nlohmann::ordered_json;

/// What is shown of a file: for people, and for programs.
struct Inspection {
  std::string text;
  Json json = Json::object();
  std::string problem{};  ///< what is damaged of several things, of which the others are shown; empty: nothing
};

// Each reads the whole file and checks what there is to check. Throws: DataError for a damaged one.
Inspection inspect_safetensors(const std::filesystem::path& path);
Inspection inspect_checkpoint(const std::filesystem::path& path);
Inspection inspect_checkpoint_folder(const std::filesystem::path& path);
Inspection inspect_graph(const std::filesystem::path& path);
Inspection inspect_profile(const std::filesystem::path& path);
Inspection inspect_plan(const std::filesystem::path& path);
Inspection inspect_events(const std::filesystem::path& path);
Inspection inspect_tfrecord(const std::filesystem::path& path);
Inspection inspect_npy(const std::filesystem::path& path);
Inspection inspect_idx(const std::filesystem::path& path);
Inspection inspect_npz(const std::filesystem::path& path);
Inspection inspect_hdf5(const std::filesystem::path& path);  ///< of each dataset the first row
Inspection inspect_lmdb(const std::filesystem::path& path);
Inspection inspect_lmdb_parts(const std::filesystem::path& path);  ///< of a folder, one after the other
Inspection inspect_event_files(const std::filesystem::path& path);
Inspection inspect_tfrecord_files(const std::filesystem::path& path);  ///< of a folder, summed up

Inspection inspect_images(const std::filesystem::path& path);  ///< names of classes and files alone

/// Of that kind.
Inspection inspect(FileKind kind, const std::filesystem::path& path);

/// How many records each class has, and what it is called where that is told.
class ClassCounts {
 public:
  /// `what` is counted.
  explicit ClassCounts(ClassNames names = {}, std::string what = "record")
      : names_(std::move(names)), what_(std::move(what)) {}
  void add(std::int64_t label, const std::string& name = {});
  /// A line a class, as far as there are few; empty without any.
  std::string text() const;
  Json json() const;

 private:
  ClassNames names_;
  std::string what_;
  std::map<std::int64_t, std::int64_t> counts_;
};

/// "3 tensors", "1 tensor".
std::string counted(std::size_t count, const std::string& what);
/// A name of a file for people: control characters, which could steer a terminal, and what is no UTF-8, as '?'.
std::string printable(const std::string& name);

}  // namespace sectionflow
