#include "sources/lmdb_check.h"

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/file_at.h"

namespace sectionflow {
namespace {

enum PageFlags : std::uint16_t { kBranchPage = 1, kLeafPage = 2, kOverflowPage = 4, kMetaPage = 8 };
constexpr std::uint16_t kLargeValue = 1;  // flag of a node: its value is on pages of its own
constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
constexpr std::size_t kPageHead = 16, kNodeHead = 8;
constexpr int kMostLevels = 32;  // as liblmdb's cursors have

/// What the head of a file says of its databases.
struct LmdbMeta {
  std::uint32_t page_bytes = 0;
  std::uint16_t main_flags = 0;
  std::uint64_t entries = 0, root = 0, last_page = 0, transaction = 0;
};

class LmdbFile {
 public:
  explicit LmdbFile(const std::filesystem::path& path) : file_(path, "LMDB file") {}

  std::int64_t check() {
    LmdbMeta meta = meta_at(0);
    page_bytes_ = meta.page_bytes;
    const LmdbMeta other = meta_at(page_bytes_);
    want(other.page_bytes == page_bytes_, 1, "is of another size of pages than page 0");
    if (meta.transaction < other.transaction) meta = other;
    num_pages_ = file_.num_bytes() / page_bytes_;
    want(meta.last_page < num_pages_, 0, "says that there are more pages than the file has");
    num_pages_ = meta.last_page + 1;
    want(meta.main_flags == 0, 0, "says that keys are more than strings with one value each, as Caffe's are not");
    if (meta.root != kNoPage) visit(meta.root, 0);
    want(meta.entries == entries_, 0, "says another number of records than there are");
    return static_cast<std::int64_t>(entries_);
  }

 private:
  void want(bool condition, std::uint64_t page, const char* complaint) const {
    if (condition) return;
    throw DataError(error_text_of(file_.where(), "page ", page, " ", complaint,
                                  hint("the file is damaged, or no LMDB database of a 64-bit machine; fetch it again")),
                    ErrorCode::damaged_record);
  }

  template <class Number>
  static Number at(const std::string& bytes, std::size_t offset) {
    Number number = 0;
    std::memcpy(&number, bytes.data() + offset, sizeof number);
    return number;
  }

  LmdbMeta meta_at(std::uint64_t offset) const {
    constexpr std::size_t kBytes = kPageHead + 136;
    const std::uint64_t page = offset == 0 ? 0 : 1;
    want(file_.num_bytes() >= kBytes && offset <= file_.num_bytes() - kBytes, page, "is cut off");
    std::string bytes(kBytes, '\0');
    file_.read_at(offset, bytes.data(), bytes.size());
    constexpr std::uint32_t kMagic = 0xBEEFC0DE;
    want((at<std::uint16_t>(bytes, 10) & kMetaPage) != 0 && at<std::uint32_t>(bytes, 16) == kMagic &&
             at<std::uint32_t>(bytes, 20) == 1,
         page, "does not begin as an LMDB database of version 1 does");
    // magic, version, address, map size; the databases of free pages and of records, of 48 bytes each.
    constexpr std::size_t kFree = kPageHead + 24, kMain = kFree + 48, kBehind = kMain + 48;
    LmdbMeta meta;
    meta.page_bytes = at<std::uint32_t>(bytes, kFree);
    const bool is_power = (meta.page_bytes & (meta.page_bytes - 1)) == 0;
    want(is_power && meta.page_bytes >= 256 && meta.page_bytes <= 65536, page, "says a size of pages that cannot be");
    constexpr std::uint16_t kFixedAddress = 1;
    want((at<std::uint16_t>(bytes, kFree + 4) & kFixedAddress) == 0, page, "wants to lie at a certain address");
    meta.main_flags = at<std::uint16_t>(bytes, kMain + 4);
    meta.entries = at<std::uint64_t>(bytes, kMain + 32);
    meta.root = at<std::uint64_t>(bytes, kMain + 40);
    meta.last_page = at<std::uint64_t>(bytes, kBehind);
    meta.transaction = at<std::uint64_t>(bytes, kBehind + 8);
    return meta;
  }

  void mark(std::uint64_t page) {
    want(page >= 2 && page < num_pages_, page, "is wanted, and is not there");
    if (seen_.empty()) seen_.resize(static_cast<std::size_t>(num_pages_));
    want(!seen_[static_cast<std::size_t>(page)], page, "is wanted twice");
    seen_[static_cast<std::size_t>(page)] = true;
  }

  void visit(std::uint64_t page, int level) {
    want(level < kMostLevels, page, "is deeper in the tree than can be");
    mark(page);
    std::string bytes(page_bytes_, '\0');
    file_.read_at(page * page_bytes_, bytes.data(), bytes.size());
    const auto flags = at<std::uint16_t>(bytes, 10);
    want(at<std::uint64_t>(bytes, 0) == page, page, "says another number");
    want(flags == kBranchPage || flags == kLeafPage, page, "is of another kind than it is wanted as");
    const bool is_leaf = flags == kLeafPage;
    want(is_leaf == (leaf_level_.value_or(is_leaf ? level : -1) == level), page, "is at another depth than its like");
    if (is_leaf) leaf_level_ = level;
    const std::size_t lower = at<std::uint16_t>(bytes, 12), upper = at<std::uint16_t>(bytes, 14);
    want(lower >= kPageHead && lower % 2 == 0 && lower <= upper && upper <= page_bytes_, page,
         "says bounds that cannot be");
    const std::size_t count = (lower - kPageHead) / 2;
    want(count >= (is_leaf ? 1U : 2U), page, "has too few nodes");
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t node = at<std::uint16_t>(bytes, kPageHead + 2 * i);
      // liblmdb reads nodes as numbers of two bytes.
      want(node >= upper && node % 2 == 0 && node + kNodeHead <= page_bytes_, page, "has a node outside of itself");
      const std::size_t key_bytes = at<std::uint16_t>(bytes, node + 6);
      want(key_bytes <= page_bytes_ - node - kNodeHead, page, "has a key that leaves it");
      if (is_leaf) {
        check_value(bytes, page, node, key_bytes);
      } else {
        const std::uint64_t child = at<std::uint16_t>(bytes, node) |
                                    std::uint64_t{at<std::uint16_t>(bytes, node + 2)} << 16 |
                                    std::uint64_t{at<std::uint16_t>(bytes, node + 4)} << 32;
        visit(child, level + 1);
      }
    }
  }

  void check_value(const std::string& bytes, std::uint64_t page, std::size_t node, std::size_t key_bytes) {
    ++entries_;
    const std::uint64_t value_bytes = at<std::uint16_t>(bytes, node) | std::uint64_t{at<std::uint16_t>(bytes, node + 2)}
                                                                           << 16;
    const auto flags = at<std::uint16_t>(bytes, node + 4);
    const std::size_t place = node + kNodeHead + key_bytes, left = page_bytes_ - place;
    want(flags == 0 || flags == kLargeValue, page, "has a record of another kind than a string");
    if (flags == 0) {
      want(value_bytes <= left, page, "has a value that leaves it");
      return;
    }
    want(left >= 8, page, "has a value that leaves it");
    const auto first = at<std::uint64_t>(bytes, place);
    const std::uint64_t count = (kPageHead + value_bytes + page_bytes_ - 1) / page_bytes_;
    want(first < num_pages_ && count <= num_pages_ - first, page, "has a value beyond the file");
    std::string head(kPageHead, '\0');
    file_.read_at(first * page_bytes_, head.data(), head.size());
    want(at<std::uint64_t>(head, 0) == first && at<std::uint16_t>(head, 10) == kOverflowPage &&
             at<std::uint32_t>(head, 12) >= count,
         first, "is not the value that it is wanted as");
    for (std::uint64_t i = 0; i < count; ++i) mark(first + i);
  }

  FileAt file_;
  std::uint32_t page_bytes_ = 0;
  std::uint64_t num_pages_ = 0;
  std::uint64_t entries_ = 0;
  std::vector<bool> seen_;
  std::optional<int> leaf_level_;
};

}  // namespace

std::int64_t check_lmdb_file(const std::filesystem::path& file) {
  return LmdbFile(file).check();
}

}  // namespace sectionflow
