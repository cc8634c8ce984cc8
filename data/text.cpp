#include "data/text.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/whole_file.h"
#include "data/source_identity.h"
#include "data/tensor_hashes.h"

namespace sectionflow {
namespace {

constexpr std::size_t kMaxPieceBytes = 4096;
constexpr std::size_t kMaxVocabularyBytes = 64_MiB;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The piece that a line stands for.
std::string unescaped(std::string_view line, const std::string& where) {
  std::string piece;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      piece += line[i];
      continue;
    }
    const char kind = ++i < line.size() ? line[i] : '\0';
    const auto simple = std::string_view("ntr\\").find(kind);
    if (kind != '\0' && simple != std::string_view::npos) {
      piece += "\n\t\r\\"[simple];
      continue;
    }
    const bool is_byte =
        kind == 'x' && i + 2 < line.size() && hex_digit(line[i + 1]) >= 0 && hex_digit(line[i + 2]) >= 0;
    SF_CHECK(is_byte, DataError, where, "an escape is none of \\n, \\t, \\r, \\\\ and \\x41");
    piece += static_cast<char>(hex_digit(line[i + 1]) << 4 | hex_digit(line[i + 2]));
    i += 2;
  }
  return piece;
}

class TextSource final : public IndexedSource {
 public:
  TextSource(std::string name, std::vector<std::int32_t> tokens, TextOptions options)
      : name_(std::move(name)), tokens_(std::move(tokens)), options_(options) {
    const auto behind_first = static_cast<std::int64_t>(tokens_.size()) - (options_.window + 1);
    SF_CHECK(behind_first >= 0, DataError, name_, ": has ", tokens_.size(), " tokens; a window wants ", options_.window,
             " and one behind them", hint("take a smaller window"));
    size_ = behind_first / options_.stride + 1;
  }
  std::string name() const override { return name_; }
  std::string identity() const override {
    return identity_.get([&] {
      const HostTensor all = HostTensor::of<std::int32_t>({static_cast<std::int64_t>(tokens_.size())}, tokens_);
      return text_of("text of ", tokens_.size(), " tokens ", tensor_hash(all.view()), " in windows of ",
                     options_.window, " at strides of ", options_.stride);
    });
  }
  std::int64_t size() const override { return size_; }
  Example at(std::int64_t index) const override {
    SF_CHECK(index >= 0 && index < size_, ArgumentError, name_, ": example ", index, " of ", size_, " was asked for");
    const auto first = tokens_.begin() + index * options_.stride;
    Example example;
    for (const auto& [key, shift] : {std::pair{"inputs", 0}, std::pair{"targets", 1}}) {
      HostTensor window(Dtype::i32, {options_.window});
      std::copy_n(first + shift, options_.window, window.values<std::int32_t>().begin());
      example.emplace(key, std::move(window));
    }
    return example;
  }

 private:
  std::string name_;
  TextOnce identity_;
  std::vector<std::int32_t> tokens_;
  TextOptions options_;
  std::int64_t size_ = 0;
};

}  // namespace

/// A tree of all beginnings of pieces.
struct Vocabulary::Pieces {
  std::vector<std::string> pieces;
  std::unordered_map<std::uint64_t, std::uint32_t> next;  // beginning and byte behind it, to the longer beginning
  std::vector<std::int32_t> token_of = {-1};              // of each beginning that is a piece; the first is empty
  std::int32_t unknown = -1;

  /// False where it is there already.
  bool add(std::string piece) {
    std::uint32_t place = 0;
    for (const char c : piece) {
      const auto [entry, is_new] = next.try_emplace(step(place, c), static_cast<std::uint32_t>(token_of.size()));
      if (is_new) token_of.push_back(-1);
      place = entry->second;
    }
    if (token_of[place] >= 0) return false;
    token_of[place] = static_cast<std::int32_t>(pieces.size());
    if (piece == "<unk>") unknown = token_of[place];
    pieces.push_back(std::move(piece));
    return true;
  }

  static std::uint64_t step(std::uint32_t place, char c) {
    return std::uint64_t{place} << 8 | static_cast<unsigned char>(c);
  }
};

Vocabulary Vocabulary::of_bytes() {
  auto pieces = std::make_shared<Pieces>();
  for (int value = 0; value < 256; ++value) pieces->add(std::string(1, static_cast<char>(value)));
  return Vocabulary(std::move(pieces));
}

Vocabulary Vocabulary::read(const std::filesystem::path& path) {
  const std::string bytes = read_whole_file(path, kMaxVocabularyBytes, "Vocabulary::read");
  auto pieces = std::make_shared<Pieces>();
  std::string_view left = bytes;
  while (!left.empty()) {
    const std::string where =
        text_of("Vocabulary::read: '", path.string(), "': line ", pieces->pieces.size() + 1, ": ");
    const std::size_t end = std::min(left.find('\n'), left.size());
    std::string_view line = left.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    std::string piece = unescaped(line, where);
    SF_CHECK(!piece.empty(), DataError, where, "is empty; wanted one piece of text a line");
    SF_CHECK(piece.size() <= kMaxPieceBytes, DataError, where, "has ", piece.size(), " bytes; wanted at most ",
             kMaxPieceBytes);
    SF_CHECK(pieces->add(std::move(piece)), DataError, where, "has the piece of an earlier line");
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  SF_CHECK(!pieces->pieces.empty(), DataError, "Vocabulary::read: '", path.string(), "' has no pieces");
  return Vocabulary(std::move(pieces));
}

std::int64_t Vocabulary::size() const {
  return static_cast<std::int64_t>(pieces_->pieces.size());
}

std::vector<std::int32_t> Vocabulary::tokens_of(std::string_view text, const std::string& where) const {
  std::vector<std::int32_t> tokens;
  for (std::size_t begin = 0; begin < text.size();) {
    std::int32_t token = pieces_->unknown;
    std::size_t end = begin + 1;
    std::uint32_t place = 0;
    for (std::size_t i = begin; i < text.size(); ++i) {
      const auto found = pieces_->next.find(Pieces::step(place, text[i]));
      if (found == pieces_->next.end()) break;
      place = found->second;
      if (pieces_->token_of[place] < 0) continue;
      token = pieces_->token_of[place];
      end = i + 1;
    }
    SF_CHECK(token >= 0, DataError, where, "no piece of the vocabulary is at byte ", begin, ", whose value is ",
             static_cast<int>(static_cast<unsigned char>(text[begin])), hint("add it, or the piece <unk>"));
    tokens.push_back(token);
    begin = end;
  }
  return tokens;
}

std::string Vocabulary::text_of_tokens(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    SF_CHECK(token >= 0 && token < size(), ArgumentError, "text_of_tokens: the token ", token, " is none of the ",
             size());
    text += pieces_->pieces[static_cast<std::size_t>(token)];
  }
  return text;
}

std::shared_ptr<const IndexedSource> text_source(const std::vector<std::filesystem::path>& files,
                                                 const Vocabulary& vocabulary, TextOptions options) {
  SF_CHECK(!files.empty(), ArgumentError, "text_source: no files; wanted one at least");
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  SF_CHECK(options.window >= 1 && options.window <= kMost && options.stride >= 0 && options.stride <= kMost,
           ArgumentError, "text_source: a window of ", options.window, " tokens at strides of ", options.stride,
           "; wanted a window of 1 at least, and strides of 1 at least or 0");
  if (options.stride == 0) options.stride = options.window;
  std::vector<std::int32_t> tokens;
  std::size_t left = options.max_bytes;
  for (const auto& path : files) {
    const std::string text = read_whole_file(path, left, "text_source");
    left -= text.size();
    const auto more = vocabulary.tokens_of(text, "text_source: '" + path.string() + "': ");
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  std::string name = text_of("text '", files.front().string(), "'");
  if (files.size() > 1) name += text_of(" and ", files.size() - 1, " more");
  return std::make_shared<TextSource>(std::move(name), std::move(tokens), options);
}

}  // namespace sectionflow
