#include "data/tfrecord.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "data/byte_input.h"
#include "data/crc32c.h"

namespace sectionflow {
namespace {

static_assert(std::endian::native == std::endian::little, "lengths and checksums go to files as they lie");

constexpr std::size_t kHeadBytes = 12;  // u64 length, u32 checksum of it
constexpr std::size_t kTailBytes = 4;   // u32 checksum of the record
constexpr std::size_t kBufferBytes = 256_KiB;

template <class Number>
Number number_at(const char* bytes) {
  Number number = 0;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

template <class Number>
void append_number(std::string& text, Number number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  text.append(bytes, sizeof number);
}

bool is_head(std::string_view bytes) {
  return bytes.size() >= kHeadBytes && masked_crc32c(bytes.substr(0, 8)) == number_at<std::uint32_t>(bytes.data() + 8);
}

/// Plain files are known by the checksum of their first length, so that none is taken for a compressed one by chance.
Compression compression_of(std::string_view head) {
  if (is_head(head)) return Compression::none;
  if (begins_gzip(head)) return Compression::gzip;
  return begins_zlib(head) ? Compression::zlib : Compression::none;
}

std::unique_ptr<ByteInput> expanded_records(std::unique_ptr<ByteInput> input, Compression compression) {
  if (compression == Compression::automatic) {
    std::string head(kHeadBytes, '\0');
    head.resize(input->read(head.data(), head.size()));
    compression = compression_of(head);
    input = preceded_by(std::move(head), std::move(input));
  }
  if (compression == Compression::none) return input;
  // Who reads records says where the damage is.
  return expanded(std::move(input), compression == Compression::gzip ? Container::gzip : Container::zlib, "");
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes.data(), bytes.size()), 15) + 0xA282EAD8U;
}

struct RecordWriter::State {
  ByteSink sink;
  Compression compression;
  std::string record;  // with what belongs to it
  z_stream stream{};
  std::string compressed;

  State(ByteSink given_sink, Compression given) : sink(std::move(given_sink)), compression(given) {
    SF_CHECK(compression != Compression::automatic, ArgumentError,
             "RecordWriter: compression is automatic, which only a reader can make out; wanted none, gzip or zlib");
    if (compression == Compression::none) return;
    constexpr int kGzipBits = 15 + 16, kZlibBits = 15, kMemory = 8;
    const int bits = compression == Compression::gzip ? kGzipBits : kZlibBits;
    compressed.resize(64_KiB);
    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, bits, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (compression != Compression::none) deflateEnd(&stream);
  }

  void compress(std::string_view bytes, int flush) {
    bool done = false;
    while (!done) {
      const auto count = static_cast<unsigned>(std::min<std::size_t>(bytes.size(), 1_GiB));
      const bool is_last = count == bytes.size();
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      stream.avail_in = count;
      do {
        stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
        stream.avail_out = static_cast<unsigned>(compressed.size());
        deflate(&stream, is_last ? flush : Z_NO_FLUSH);
        const std::size_t made = compressed.size() - stream.avail_out;
        if (made > 0) sink(compressed.data(), made);
      } while (stream.avail_out == 0);
      bytes.remove_prefix(count);
      done = is_last;
    }
  }
};

RecordWriter::RecordWriter(ByteSink sink, Compression compression)
    : state_(std::make_unique<State>(std::move(sink), compression)) {}
RecordWriter::RecordWriter(RecordWriter&&) noexcept = default;
RecordWriter& RecordWriter::operator=(RecordWriter&&) noexcept = default;
RecordWriter::~RecordWriter() = default;

void RecordWriter::write(std::string_view record) {
  std::string& bytes = state_->record;
  bytes.clear();
  bytes.reserve(kHeadBytes + record.size() + kTailBytes);
  append_number<std::uint64_t>(bytes, record.size());
  append_number(bytes, masked_crc32c(bytes));
  bytes += record;
  append_number(bytes, masked_crc32c(record));
  if (state_->compression == Compression::none) {
    state_->sink(bytes.data(), bytes.size());
  } else {
    state_->compress(bytes, Z_NO_FLUSH);
  }
}

void RecordWriter::finish() {
  if (state_->compression != Compression::none) state_->compress({}, Z_FINISH);
}

struct RecordReader::State {
  std::string where;
  RecordOptions options;
  std::unique_ptr<ByteInput> input;
  std::unique_ptr<char[]> buffer = std::make_unique_for_overwrite<char[]>(kBufferBytes);
  std::size_t capacity = kBufferBytes;
  std::size_t begin = 0, end = 0;  // of what has been read and not been given yet
  std::uint64_t next_offset = 0;   // in the expanded bytes, of buffer[begin]
  std::uint64_t offset = 0;        // of the record of the last call
  std::int64_t index = -1;         // its number
  std::int64_t next_index = 0;
  bool ended = false;

  State(std::unique_ptr<ByteInput> file, const std::string& name, RecordOptions given)
      : where("TFRecord file '" + name + "': "), options(given) {
    input = expanded_records(std::move(file), options.compression);
  }

  /// Whether so many bytes are to be had; they then lie in the buffer from `begin` on. The buffer grows as they come.
  bool want(std::size_t count) {
    while (end - begin < count) {
      if (begin > 0) {
        std::memmove(buffer.get(), buffer.get() + begin, end - begin);
        end -= begin;
        begin = 0;
      }
      if (end == capacity) {
        auto larger = std::make_unique_for_overwrite<char[]>(2 * capacity);
        std::memcpy(larger.get(), buffer.get(), end);
        buffer = std::move(larger);
        capacity *= 2;
      }
      const std::size_t got = input->read(buffer.get() + end, capacity - end);
      end += got;
      if (got == 0) return false;
    }
    return true;
  }

  void take(std::size_t count) {
    begin += count;
    next_offset += count;
  }

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw DataError(error_text_of(where, "record ", index, " at byte ", offset, ": ", parts...),
                    ErrorCode::damaged_record);
  }

  /// Nothing where the file ends, which it may do here alone.
  std::optional<std::uint64_t> read_head() {
    offset = next_offset;
    index = next_index;
    if (!want(kHeadBytes)) {
      const std::size_t left = end - begin;
      ended = true;
      if (left == 0 || options.allow_torn_end) return std::nullopt;
      refuse("the file ends after ", left, " of the ", kHeadBytes, " bytes before a record",
             hint("is the download complete?"));
    }
    const char* head = buffer.get() + begin;
    if (!is_head({head, kHeadBytes})) {
      ended = true;
      refuse("its length does not match its checksum; nobody knows where the next record begins",
             hint(next_index == 0 ? "is it a TFRecord file, compressed as was said?" : "fetch it again"));
    }
    const auto length = number_at<std::uint64_t>(head);
    // What belongs to a record must be countable with it.
    constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
    if (length > options.max_record_bytes || length > kMost) {
      ended = true;
      refuse("it is of ", length, " bytes; at most ", bytes_text(options.max_record_bytes), " are read",
             hint("raise max_record_bytes if the file is right"));
    }
    take(kHeadBytes);
    return length;
  }

  /// Nothing where the end is torn and may be.
  bool want_record(std::uint64_t length) {
    const std::size_t wanted = static_cast<std::size_t>(length) + kTailBytes;
    const auto left = input->bytes_left();
    const bool is_there = (!left.has_value() || end - begin + *left >= wanted) && want(wanted);
    if (is_there) return true;
    ended = true;
    if (options.allow_torn_end) return false;
    refuse("it is of ", length, " bytes, but the file ends before", hint("is the download complete?"));
  }

  /// What cannot be read, or expanded, ends the reading.
  template <class Call>
  auto to_the_end(const Call& call) -> decltype(call()) {
    try {
      return call();
    } catch (const DataError& error) {
      if (error.code() == ErrorCode::damaged_record) throw;
      ended = true;
      if (error.code() == ErrorCode::unreadable_now) throw;
      refuse(error.message());
    }
  }

  std::optional<std::string_view> next() {
    if (ended) return std::nullopt;
    return to_the_end([&]() -> std::optional<std::string_view> {
      const auto length = read_head();
      if (!length.has_value() || !want_record(*length)) return std::nullopt;
      const std::string_view record(buffer.get() + begin, static_cast<std::size_t>(*length));
      take(record.size() + kTailBytes);
      const bool is_sound = masked_crc32c(record) == number_at<std::uint32_t>(record.data() + record.size());
      ++next_index;
      if (!is_sound) {
        refuse("its ", record.size(), " bytes do not match their checksum",
               hint("records behind it can be read; fetch the file again to have all"));
      }
      return record;
    });
  }

  std::int64_t skip(std::int64_t count) {
    std::int64_t done = 0;
    while (done < count && !ended) {
      const bool skipped = to_the_end([&] {
        const auto length = read_head();
        if (!length.has_value() || !want_record(*length)) return false;
        take(static_cast<std::size_t>(*length) + kTailBytes);
        ++next_index;
        return true;
      });
      if (skipped) ++done;
    }
    return done;
  }
};

RecordReader::RecordReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
RecordReader::RecordReader(const std::filesystem::path& path, RecordOptions options)
    : state_(std::make_unique<State>(open_file(path, "TFRecord file"), path.string(), options)) {}
RecordReader::RecordReader(RecordReader&&) noexcept = default;
RecordReader& RecordReader::operator=(RecordReader&&) noexcept = default;
RecordReader::~RecordReader() = default;

RecordReader RecordReader::of_bytes(std::string_view bytes, std::string name, RecordOptions options) {
  return RecordReader(std::make_unique<State>(sectionflow::bytes_of(bytes), name, options));
}

std::optional<std::string_view> RecordReader::next() {
  return state_->next();
}
std::int64_t RecordReader::skip(std::int64_t count) {
  return state_->skip(count);
}
std::uint64_t RecordReader::offset() const {
  return state_->offset;
}
std::int64_t RecordReader::index() const {
  return state_->index;
}

}  // namespace sectionflow
