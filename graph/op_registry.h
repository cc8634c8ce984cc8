#pragma once

#include <map>
#include <string>

#include "base/export.h"
#include "graph/op_def.h"

namespace SF_API sectionflow {

/// Op definitions by name. A definition stays where it is once it is there: nodes point to it.
class OpRegistry {
 public:
  /// Throws: ArgumentError (SF-E013) for a name that is there already.
  void add(OpDef definition);
  /// Throws: InternalError for an unknown name.
  const OpDef& at(const std::string& name) const;
  const std::map<std::string, OpDef>& all() const { return definitions_; }
  /// Moves all definitions of `other` here, which has none of these names.
  void take(OpRegistry& other) noexcept { definitions_.merge(other.definitions_); }

 private:
  std::map<std::string, OpDef> definitions_;
};

/// The definitions of every family of the library, and of those that were registered (extend/register_family.h).
const OpRegistry& op_registry();

}  // namespace sectionflow
