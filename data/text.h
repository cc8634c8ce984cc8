#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/export.h"
#include "data/source.h"

namespace SF_API sectionflow {

/// Numbers for pieces of text. Owns: the pieces, some 100 bytes for each of their bytes. Threads: any number at once.
class Vocabulary {
 public:
  /// The 256 values of a byte: every text has tokens, as many as bytes.
  static Vocabulary of_bytes();
  /// One piece a line; its token is the number of the line, from 0 on. In a line `\n`, `\t`, `\r`, `\\` and `\x41` (two
  /// digits) stand for a line end, a tab, a carriage return, a backslash and the byte of that value. A carriage return
  /// in front of a line's end belongs to that, as other systems write it. The piece `<unk>`,
  /// where there is one, is what a byte becomes that no piece begins with. Throws: DataError naming file and line, for
  /// empty pieces, for two that are equal or longer than 4 KiB, for other escapes, and for a file without pieces or of
  /// more than 64 MiB.
  static Vocabulary read(const std::filesystem::path& path);

  std::int64_t size() const;
  /// The tokens of a text: the longest piece at the beginning, the longest at what is left, and so on. `where` begins
  /// the error. Throws: DataError for a byte that no piece begins with, where there is no `<unk>`.
  std::vector<std::int32_t> tokens_of(std::string_view text, const std::string& where = "text: ") const;
  /// The text of tokens. Throws: ArgumentError for one outside of 0 to size() - 1.
  std::string text_of_tokens(std::span<const std::int32_t> tokens) const;

 private:
  struct Pieces;
  explicit Vocabulary(std::shared_ptr<const Pieces> pieces) : pieces_(std::move(pieces)) {}
  std::shared_ptr<const Pieces> pieces_;
};

/// How a text is cut into examples.
struct TextOptions {
  std::int64_t window = 128;      ///< tokens that a model reads at once
  std::int64_t stride = 0;        ///< from the beginning of a window to the next one's; 0: the window's length, so that
                                  ///< each token is predicted once
  std::size_t max_bytes = 1_GiB;  ///< of all files together
};

/// Windows of `window` + 1 tokens of texts, one text behind the other, for language models: {"inputs": i32 [window],
/// "targets": i32 [window]}, each target the token behind its input. What is left at the end is left out. All tokens
/// are in memory, four bytes each. Throws: DataError for files that cannot be read or are larger than `max_bytes`, or
/// have no tokens in the vocabulary, and for fewer tokens than one window; ArgumentError for no files and for options
/// outside of their range.
std::shared_ptr<const IndexedSource> text_source(const std::vector<std::filesystem::path>& files,
                                                 const Vocabulary& vocabulary, TextOptions options = {});

}  // namespace sectionflow
