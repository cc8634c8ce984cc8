#pragma once

#include <map>
#include <string>

#include "graph/op_def.h"

namespace sectionflow {

/// All op definitions by name.
class OpRegistry {
 public:
  /// Throws: InternalError for a name that is there already.
  void add(OpDef definition);
  /// Throws: InternalError for an unknown name.
  const OpDef& at(const std::string& name) const;
  const std::map<std::string, OpDef>& all() const { return definitions_; }

 private:
  std::map<std::string, OpDef> definitions_;
};

/// The definitions of every family in graph/op_list.inc.
const OpRegistry& op_registry();

// One function a family, in graph/ops/<family>.cpp.
#define SF_OP_FAMILY(family) void define_##family##_ops(OpRegistry& registry);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY

}  // namespace sectionflow
