#pragma once

#include <cstdint>
#include <filesystem>

namespace sectionflow {

/// Checks what liblmdb 0.9 takes for granted when it reads the main database of a file: that pages lie within the file
/// and are of the kind they are read as, and that nodes, keys and values lie within their pages. Each page of the tree
/// is visited once, those of large values are not read. Returns the number of records.
/// Throws: DataError (SF-E407) naming file and page. Source: OpenLDAP, libraries/liblmdb/mdb.c (MDB_page, MDB_node,
/// MDB_meta).
std::int64_t check_lmdb_file(const std::filesystem::path& file);

}  // namespace sectionflow
