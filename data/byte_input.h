#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sectionflow {

/// Bytes that are read once, from the first to the last: a file's, what a compressed file expands to, a text's.
/// Threads: one at a time.
class ByteInput {
 public:
  virtual ~ByteInput() = default;
  /// Fills `bytes` as far as there are any; returns how far: less than `num_bytes` at the end alone, and in front of
  /// damage. Throws: DataError when the next bytes cannot be read, or expanded.
  virtual std::size_t read(char* bytes, std::size_t num_bytes) = 0;
  /// How many are left, where that is known without reading them.
  virtual std::optional<std::uint64_t> bytes_left() const { return std::nullopt; }
};

/// A file's bytes as they lie, as many as it has now. `kind` begins every error, as in "CSV file".
/// Throws: DataError for what is absent, no file, or not readable.
std::unique_ptr<ByteInput> open_file(const std::filesystem::path& path, const std::string& kind);

/// Bytes that somebody else owns.
std::unique_ptr<ByteInput> bytes_of(std::string_view bytes);

/// `input` with these bytes in front of it.
std::unique_ptr<ByteInput> preceded_by(std::string head, std::unique_ptr<ByteInput> input);

/// What streams of gzip (several of them, one behind the other, count as one; zeros behind each are passed over) or of
/// zlib expand to. `where` begins
/// every error.
enum class Container { gzip, zlib };
std::unique_ptr<ByteInput> expanded(std::unique_ptr<ByteInput> compressed, Container container,
                                    const std::string& where);

/// Whether a stream that begins with these bytes is one of gzip, or may be one of zlib.
bool begins_gzip(std::string_view bytes);
bool begins_zlib(std::string_view bytes);

/// A file that is read as its expanded bytes where it begins as gzip does, and as it lies otherwise.
std::unique_ptr<ByteInput> open_plain_or_gzip(const std::filesystem::path& path, const std::string& kind);

}  // namespace sectionflow
