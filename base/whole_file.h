#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error_code.h"
#include "base/export.h"

namespace SF_API sectionflow {

/// Whether a call to open or read a file has failed for a reason of the machine, and not of the file.
bool may_pass(int error_number);

/// A call to open or read a file has failed so; `what` begins the text. Throws: DataError, with SF-E411 for reasons of
/// the machine that may pass (too many open files, no memory, a disk or network that fails).
[[noreturn]] void throw_read_failure(const std::string& what, int error_number);

/// The bytes of a file, `most_bytes` at most. `what` begins every error, as in "load_graph".
/// Throws: DataError for what is absent, no file, not readable (SF-E411 where that may pass) or larger; no more than
/// `most_bytes` are ever read.
std::string read_whole_file(const std::filesystem::path& path, std::size_t most_bytes, const std::string& what);

/// Writes these bytes as a file, which appears whole or not at all; see AtomicFile. Throws: DataError.
void write_whole_file(const std::filesystem::path& path, std::string_view bytes, const std::string& what);
/// The same in a folder, which is made, with those above it, where it is not there yet; empty: the one of the process.
void write_whole_file_in(const std::filesystem::path& folder, const std::string& name, std::string_view bytes,
                         const std::string& what);

/// Makes a folder, with those above it, where it is not there yet, so that a loss of power does not take it; empty: the
/// one of the process, which is there. `what` begins every error, `code` is theirs. Throws: DataError.
void make_folder(const std::filesystem::path& folder, const std::string& what, ErrorCode code = ErrorCode::data);
/// Has the names in a folder on the disk, where the file system knows such a thing and the folder may be read. Throws:
/// DataError.
void flush_folder(const std::filesystem::path& folder, const std::string& what, ErrorCode code = ErrorCode::data);

/// For all that opens files: the system ends a path at its first byte of zero, and would take another file than the
/// one that is meant. Throws: DataError, which `what` begins, for such a path and for an empty one.
void check_path(const std::filesystem::path& path, const std::string& what);

/// The same place wherever the process goes from here; what is empty stays so, for who refuses it.
std::filesystem::path absolute_path(const std::filesystem::path& path);

/// Fail at once where a file of that name could not be written later; nothing is left but the folder, which is made.
/// Throws: DataError.
void check_writable(const std::filesystem::path& path, const std::string& what);
/// The same of a file in a folder, which is made where it is not there yet.
void check_writable_in(const std::filesystem::path& folder, const std::string& name, const std::string& what);

}  // namespace sectionflow
