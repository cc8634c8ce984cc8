#pragma once

#include <map>
#include <string>

#include "base/error.h"
#include "base/export.h"

namespace SF_API sectionflow {

/// Which algorithm of a library runs which problem. Where the same choices are used, the same bits come out.
///
/// A problem is a text of all that decides: library and version, GPU, operation, types, shapes, layouts, the limit of
/// scratch. An algorithm is a text that its library's kernels understand, of this version and for this GPU.
struct AlgorithmChoices {
  std::map<std::string, std::string> algorithms{};  ///< by problem

  /// Reads what `save` has written. Throws: DataError for a file that cannot be read or holds no choices, with its
  /// path.
  static AlgorithmChoices load(const std::string& path, Where where = Where::here());
  /// Writes a JSON file; the old one stays whole if anything fails. Throws: DataError.
  void save(const std::string& path, Where where = Where::here()) const;

  /// The text of such a file.
  std::string json() const;
  /// Reads a text that nobody vouches for. Throws: DataError, beginning with `where`, when it holds no choices.
  static AlgorithmChoices from_json(const std::string& text, const std::string& where);

  friend bool operator==(const AlgorithmChoices&, const AlgorithmChoices&) = default;
};

}  // namespace sectionflow
