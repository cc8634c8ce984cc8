#include "data/byte_input.h"

#include <zlib.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "data/file_at.h"

namespace sectionflow {
namespace {

class FileInput final : public ByteInput {
 public:
  FileInput(const std::filesystem::path& path, const std::string& kind) : file_(path, kind) {}
  std::size_t read(char* bytes, std::size_t num_bytes) override {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(num_bytes, *bytes_left()));
    file_.read_at(offset_, bytes, count);
    offset_ += count;
    return count;
  }
  std::optional<std::uint64_t> bytes_left() const override { return file_.num_bytes() - offset_; }

 private:
  FileAt file_;
  std::uint64_t offset_ = 0;
};

class TextInput final : public ByteInput {
 public:
  explicit TextInput(std::string_view left) : left_(left) {}
  std::size_t read(char* bytes, std::size_t num_bytes) override {
    const std::size_t count = std::min(num_bytes, left_.size());
    std::copy_n(left_.data(), count, bytes);
    left_.remove_prefix(count);
    return count;
  }
  std::optional<std::uint64_t> bytes_left() const override { return left_.size(); }

 private:
  std::string_view left_;
};

class HeadedInput final : public ByteInput {
 public:
  HeadedInput(std::string head, std::unique_ptr<ByteInput> input) : head_(std::move(head)), input_(std::move(input)) {}
  std::size_t read(char* bytes, std::size_t num_bytes) override {
    const std::size_t count = std::min(num_bytes, head_.size() - done_);
    std::copy_n(head_.data() + done_, count, bytes);
    done_ += count;
    return count + input_->read(bytes + count, num_bytes - count);
  }
  std::optional<std::uint64_t> bytes_left() const override {
    const auto behind = input_->bytes_left();
    if (!behind.has_value()) return std::nullopt;
    return *behind + (head_.size() - done_);
  }

 private:
  std::string head_;
  std::size_t done_ = 0;
  std::unique_ptr<ByteInput> input_;
};

class ExpandedInput final : public ByteInput {
 public:
  ExpandedInput(std::unique_ptr<ByteInput> input, Container container, std::string where)
      : input_(std::move(input)), container_(container), where_(std::move(where)), buffer_(64_KiB, '\0') {
    constexpr int kGzipBits = 15 + 16, kZlibBits = 15;
    if (inflateInit2(&stream_, container == Container::gzip ? kGzipBits : kZlibBits) != Z_OK) throw std::bad_alloc();
  }
  ExpandedInput(const ExpandedInput&) = delete;
  ExpandedInput& operator=(const ExpandedInput&) = delete;
  ~ExpandedInput() override { inflateEnd(&stream_); }

  std::size_t read(char* bytes, std::size_t num_bytes) override {
    if (damage_ != nullptr) std::rethrow_exception(damage_);
    std::size_t done = 0;
    try {
      expand(bytes, num_bytes, done);
    } catch (const DataError&) {
      damage_ = std::current_exception();
      if (done == 0) throw;
    }
    return done;
  }

 private:
  void expand(char* bytes, std::size_t num_bytes, std::size_t& done) {
    while (done < num_bytes && !at_end_) {
      if (stream_.avail_in == 0) refill();
      const auto space = static_cast<unsigned>(std::min<std::size_t>(num_bytes - done, 1_GiB));
      stream_.next_out = reinterpret_cast<Bytef*>(bytes + done);
      stream_.avail_out = space;
      const int code = inflate(&stream_, Z_NO_FLUSH);
      done += space - stream_.avail_out;
      if (code == Z_MEM_ERROR) throw std::bad_alloc();
      SF_CHECK(code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR, DataError, where_,
               "its compressed bytes are damaged (", stream_.msg == nullptr ? "zlib" : stream_.msg, ")",
               hint("fetch it again"));
      if (code == Z_STREAM_END) {
        begin_next_stream();
      } else {
        SF_CHECK(!input_ended_ || stream_.avail_in > 0 || stream_.avail_out == 0, DataError, where_,
                 "ends within its compressed bytes", hint("is the download complete?"));
      }
    }
  }

  void refill() {
    const std::size_t count = input_->read(buffer_.data(), buffer_.size());
    input_ended_ = input_ended_ || count < buffer_.size();
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_in = static_cast<unsigned>(count);
  }

  void begin_next_stream() {
    if (stream_.avail_in == 0 && !input_ended_) refill();
    // Tapes and block devices fill up with zeros, which gzip passes over.
    while (container_ == Container::gzip && stream_.avail_in > 0 && *stream_.next_in == 0) {
      ++stream_.next_in;
      --stream_.avail_in;
      if (stream_.avail_in == 0 && !input_ended_) refill();
    }
    at_end_ = stream_.avail_in == 0;
    if (at_end_) return;
    SF_CHECK(container_ == Container::gzip, DataError, where_, "more bytes follow its compressed ones",
             hint("is it of another format?"));
    if (inflateReset(&stream_) != Z_OK) throw std::bad_alloc();
  }

  std::unique_ptr<ByteInput> input_;
  Container container_;
  std::string where_;
  std::string buffer_;
  z_stream stream_{};
  bool input_ended_ = false;
  bool at_end_ = false;
  std::exception_ptr damage_;
};

}  // namespace

std::unique_ptr<ByteInput> open_file(const std::filesystem::path& path, const std::string& kind) {
  return std::make_unique<FileInput>(path, kind);
}

std::unique_ptr<ByteInput> bytes_of(std::string_view bytes) {
  return std::make_unique<TextInput>(bytes);
}

std::unique_ptr<ByteInput> preceded_by(std::string head, std::unique_ptr<ByteInput> input) {
  return std::make_unique<HeadedInput>(std::move(head), std::move(input));
}

std::unique_ptr<ByteInput> expanded(std::unique_ptr<ByteInput> compressed, Container container,
                                    const std::string& where) {
  return std::make_unique<ExpandedInput>(std::move(compressed), container, where);
}

bool begins_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

bool begins_zlib(std::string_view bytes) {
  if (bytes.size() < 2) return false;
  const unsigned method = static_cast<unsigned char>(bytes[0]), flags = static_cast<unsigned char>(bytes[1]);
  return (method & 15U) == 8 && (method >> 4) <= 7 && (method << 8 | flags) % 31 == 0;
}

std::unique_ptr<ByteInput> open_plain_or_gzip(const std::filesystem::path& path, const std::string& kind) {
  auto input = open_file(path, kind);
  std::string head(2, '\0');
  head.resize(input->read(head.data(), head.size()));
  const bool is_gzip = begins_gzip(head);
  auto whole = preceded_by(std::move(head), std::move(input));
  if (!is_gzip) return whole;
  return expanded(std::move(whole), Container::gzip, kind + " '" + path.string() + "': ");
}

}  // namespace sectionflow
