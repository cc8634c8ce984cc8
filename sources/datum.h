#pragma once

#include <string>
#include <string_view>

#include "data/source.h"
#include "sources/lmdb.h"

namespace sectionflow {

/// The example of a serialized Datum. `where` begins every error. Throws: DataError.
Example parse_datum(std::string_view bytes, const LmdbOptions& options, const std::string& where);

/// A serialized Datum of an example with "image" and "label". Throws: DataError for another one.
std::string serialize_datum(const Example& example, const LmdbOptions& options, const std::string& where);

}  // namespace sectionflow
