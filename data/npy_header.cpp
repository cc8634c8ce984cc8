#include "data/npy_header.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"

namespace sectionflow {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

struct NamedDtype {
  std::string_view name;
  Dtype dtype;
};
constexpr std::array<NamedDtype, 7> kDtypes = {{{"f4", Dtype::f32},
                                                {"f8", Dtype::f64},
                                                {"i4", Dtype::i32},
                                                {"i8", Dtype::i64},
                                                {"u1", Dtype::u8},
                                                {"i1", Dtype::i8},
                                                {"b1", Dtype::boolean}}};

/// The dictionary of a header: an expression of Python's, of which this is all that NumPy writes.
class NpyDictionary {
 public:
  NpyDictionary(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  NpyHeader parse() {
    want('{');
    while (!take('}')) {
      const std::string key = quoted();
      want(':');
      if (key == "descr") {
        check_first(descr_.has_value(), key);
        descr_ = quoted();
      } else if (key == "fortran_order") {
        check_first(fortran_order_.has_value(), key);
        fortran_order_ = boolean();
      } else if (key == "shape") {
        check_first(shape_.has_value(), key);
        shape_ = tuple();
      } else {
        refuse("has the unknown key '", shown(key), "'");
      }
      if (!take(',')) {
        want('}');
        break;
      }
    }
    skip_spaces();
    if (position_ != text_.size()) refuse("has something behind its dictionary");
    if (!descr_.has_value() || !fortran_order_.has_value() || !shape_.has_value())
      refuse("lacks one of 'descr', 'fortran_order' and 'shape'");
    return header();
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw DataError(error_text_of(where_, "its header ", parts..., hint("is it a file that numpy.save has written?")));
  }

  /// Bytes of a file that is not trusted, for an error's text.
  static std::string shown(const std::string& text) {
    std::string out;
    for (const char c : text.substr(0, 40)) out += c >= ' ' && c <= '~' ? c : '?';
    return out;
  }

  void skip_spaces() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
  }
  bool take(char wanted) {
    skip_spaces();
    if (position_ == text_.size() || text_[position_] != wanted) return false;
    ++position_;
    return true;
  }
  void want(char wanted) {
    if (!take(wanted)) refuse("is damaged at byte ", position_, ": wanted '", wanted, "'");
  }
  void check_first(bool is_there, const std::string& key) const {
    if (is_there) refuse("has the key '", key, "' twice");
  }

  std::string quoted() {
    const char quote = take('"') ? '"' : '\'';
    if (quote == '\'') want('\'');
    const std::size_t end = text_.find(quote, position_);
    if (end == std::string_view::npos) refuse("is damaged at byte ", position_, ": a string does not end");
    const std::string text(text_.substr(position_, end - position_));
    position_ = end + 1;
    return text;
  }

  bool boolean() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.substr(position_).starts_with(word)) continue;
      position_ += word.size();
      return word == "True";
    }
    refuse("is damaged at byte ", position_, ": wanted True or False");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> dims;
    want('(');
    while (!take(')')) {
      if (dims.size() == Shape::kMaxRank) refuse("has more than ", Shape::kMaxRank, " dimensions");
      dims.push_back(number());
      if (take(',')) continue;
      want(')');
      break;
    }
    return dims;
  }

  std::int64_t number() {
    skip_spaces();
    std::int64_t value = 0;
    const std::size_t first = position_;
    for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9'; ++position_) {
      if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
          __builtin_add_overflow(value, std::int64_t{text_[position_] - '0'}, &value))
        refuse("has a dimension that does not fit 64 bits");
    }
    if (position_ == first) refuse("is damaged at byte ", position_, ": wanted a dimension");
    return value;
  }

  NpyHeader header() const {
    const std::string_view descr = *descr_;
    const auto refuse_descr = [&] {
      refuse("says elements '", shown(*descr_), "'; wanted f4, f8, i4, i8, u1 or b1, as in '<f4'");
    };
    if (descr.size() != 3 || std::string_view("<>|=").find(descr[0]) == std::string_view::npos) refuse_descr();
    for (const auto& [name, dtype] : kDtypes) {
      if (descr.substr(1) != name) continue;
      return {{dtype, Shape(*shape_)}, descr[0] == '>', *fortran_order_, 0};
    }
    refuse_descr();
    return {};
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t position_ = 0;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<std::int64_t>> shape_;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view bytes, const std::string& where) {
  SF_CHECK(bytes.starts_with(kMagic), DataError, where, "does not begin as files of NumPy's do (\\x93NUMPY)",
           hint("is it a .npy file, and neither .npz nor text?"));
  SF_CHECK(bytes.size() >= 10, DataError, where, "ends after ", bytes.size(), " bytes, within its header");
  const int major = static_cast<unsigned char>(bytes[6]), minor = static_cast<unsigned char>(bytes[7]);
  SF_CHECK(major >= 1 && major <= 3 && minor == 0, DataError, where, "is of format ", major, ".", minor,
           "; wanted 1.0, 2.0 or 3.0");
  const std::size_t first = major == 1 ? 10 : 12;
  SF_CHECK(bytes.size() >= first, DataError, where, "ends after ", bytes.size(), " bytes, within its header");
  std::size_t length = 0;
  for (std::size_t i = first; i-- > 8;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  SF_CHECK(length <= kNpyMaxHeaderBytes - first, DataError, where, "has a header of ", length,
           " bytes; wanted at most ", kNpyMaxHeaderBytes - first);
  SF_CHECK(length <= bytes.size() - first, DataError, where, "ends after ", bytes.size(), " bytes, within its header",
           hint("is it complete?"));
  NpyHeader header = NpyDictionary(bytes.substr(first, length), where).parse();
  header.num_bytes = first + length;
  return header;
}

std::string npy_header_of(const TensorType& type) {
  std::string descr;
  for (const auto& [name, dtype] : kDtypes) {
    if (dtype == type.dtype) descr = text_of(dtype_bytes(dtype) == 1 ? '|' : '<', name);
  }
  SF_CHECK(!descr.empty(), ArgumentError, "a tensor ", type.text(),
           " cannot be written as a file of NumPy's, which has no ", dtype_name(type.dtype),
           hint("cast it to f32, or write it by write_safetensors"));
  std::string shape;
  for (const std::int64_t dim : type.shape.dims()) shape += std::to_string(dim) + ", ";
  if (type.shape.rank() == 1) shape.pop_back();               // "(5,)"
  if (type.shape.rank() > 1) shape.resize(shape.size() - 2);  // "(5, 6)"
  std::string text = text_of("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", shape, "), }");
  constexpr std::size_t kBefore = 10, kAlignment = 64;
  const std::size_t wanted = (kBefore + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.append(wanted - kBefore - text.size() - 1, ' ') += '\n';
  std::string header(kMagic);
  header += {'\1', '\0', static_cast<char>(text.size() & 255U), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace sectionflow
