#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/export.h"

namespace SF_API sectionflow {

/// How the bytes of a file of records are compressed, all together.
enum class Compression : std::uint8_t {
  automatic,  ///< for readers: as the file's first bytes say
  none,
  gzip,
  zlib
};

/// The checksum of TFRecord files: CRC-32C, turned and added to, so that a sum of bytes that hold sums is sound.
/// Source: tensorflow/core/lib/hash/crc32c.h.
std::uint32_t masked_crc32c(std::string_view bytes);

/// Takes bytes, in their order: puts them into a file, a socket, a string. What it throws leaves the writer's call.
using ByteSink = std::function<void(const char* bytes, std::size_t num_bytes)>;

/// Writes records as TFRecord files have them: length, its checksum, bytes, their checksum.
/// Owns: the sink, and what compressing needs (256 KiB). Threads: one at a time.
/// Source: tensorflow/core/lib/io/record_writer.h.
class RecordWriter {
 public:
  /// Throws: ArgumentError for Compression::automatic, which says nothing to a writer.
  explicit RecordWriter(ByteSink sink, Compression compression = Compression::none);
  RecordWriter(RecordWriter&&) noexcept;
  RecordWriter& operator=(RecordWriter&&) noexcept;
  ~RecordWriter();

  /// Appends a record. Without compression its bytes and all that belongs to them reach the sink in one call.
  void write(std::string_view record);
  /// Ends a compressed stream; without compression there is nothing to end. To be called once, after the last record.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What a RecordReader takes for a file of records.
struct RecordOptions {
  Compression compression = Compression::automatic;
  /// A record that says it is longer is damage. Of a compressed file no more than this and what it really holds is ever
  /// in memory at once.
  std::size_t max_record_bytes = 256_MiB;
  /// A last record that is cut ends the reading as if it were not there, as in a file that is being written.
  bool allow_torn_end = false;
};

/// Reads the records of a TFRecord file, plain or compressed. The file is not trusted: a length is believed when its
/// checksum is right and the file has so many bytes. Memory stays below twice the largest record and 512 KiB.
/// Threads: one at a time.
class RecordReader {
 public:
  /// Throws: DataError for a file that is absent, not readable, or by its first bytes of another format.
  explicit RecordReader(const std::filesystem::path& path, RecordOptions options = {});
  RecordReader(RecordReader&&) noexcept;
  RecordReader& operator=(RecordReader&&) noexcept;
  ~RecordReader();

  /// A reader of bytes in memory, which must live longer. `name` stands in errors for the path.
  static RecordReader of_bytes(std::string_view bytes, std::string name, RecordOptions options = {});

  /// The next record, or nothing behind the last one. The bytes are good until the next call. Throws: DataError
  /// (SF-E407) naming file, record and offset. A record whose bytes are damaged is left out by that: the next call
  /// gives the one behind it. Where a length is damaged or the file ends too soon nobody knows where the next would
  /// begin: later calls give nothing.
  std::optional<std::string_view> next();
  /// Leaves out so many records, without a look at their checksums; tells how many there were. Throws: like next().
  std::int64_t skip(std::int64_t count);

  /// Where the record begins that the last call gave or refused: its offset in the file's expanded bytes, and its
  /// number.
  std::uint64_t offset() const;
  std::int64_t index() const;

 private:
  struct State;
  explicit RecordReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sectionflow
