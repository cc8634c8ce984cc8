#include "data/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace sectionflow {
namespace {

constexpr std::array<std::pair<const char*, Dtype>, 8> kDtypes = {{{"BOOL", Dtype::boolean},
                                                                   {"U8", Dtype::u8},
                                                                   {"I8", Dtype::i8},
                                                                   {"BF16", Dtype::bf16},
                                                                   {"I32", Dtype::i32},
                                                                   {"I64", Dtype::i64},
                                                                   {"F32", Dtype::f32},
                                                                   {"F64", Dtype::f64}}};

const char* format_name(Dtype dtype) {
  return std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& known) { return known.second == dtype; })->first;
}

/// Reads the header's JSON event by event. A tree of it would keep the last of two equal keys silently and cost many
/// times the text; here the place in the format is a state, and what does not belong there is refused at once, so
/// nesting cannot go deeper than the format's three levels.
class HeaderReader {
 public:
  HeaderReader(const std::string& where, SafetensorsHeader& header) : where_(where), header_(header) {}

  bool start_object(std::size_t) {
    if (place_ == Place::before) return go(Place::names);
    if (place_ == Place::tensor_wanted) return go(Place::fields);
    if (place_ == Place::metadata_wanted) return go(Place::metadata);
    refuse("an object");
  }

  bool end_object() {
    if (place_ == Place::fields) finish_entry();
    return go(place_ == Place::names ? Place::after : Place::names);
  }

  bool key(std::string& text) {
    SF_CHECK(text.size() <= kMaxTensorNameBytes || place_ == Place::metadata, DataError, where_,
             "the header has a name of ", text.size(), " bytes; wanted at most ", kMaxTensorNameBytes);
    if (place_ == Place::names) return start_value(text);
    if (place_ == Place::metadata) {
      const auto [position, is_new] = header_.metadata.try_emplace(text);
      SF_CHECK(is_new, DataError, where_, "the metadata has the key ", shown_name(text), " twice");
      metadata_value_ = &position->second;
      return go(Place::metadata_value);
    }
    return start_field(text);
  }

  bool string(std::string& text) {
    if (place_ == Place::metadata_value) {
      *metadata_value_ = std::move(text);
      return go(Place::metadata);
    }
    if (place_ != Place::dtype) refuse("a string");
    const auto* known =
        std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& each) { return each.first == text; });
    SF_CHECK(known != kDtypes.end(), DataError, where_, "tensor ", shown_name(name_), " has the dtype ",
             shown_name(text), "; supported are BOOL, U8, I8, I32, I64, BF16, F32 and F64");
    dtype_ = known->second;
    return go(Place::fields);
  }

  bool start_array(std::size_t) {
    if (place_ == Place::shape) return go(Place::shape_numbers);
    if (place_ == Place::offsets) return go(Place::offset_numbers);
    refuse("an array");
  }

  bool number_unsigned(std::uint64_t number) {
    if (place_ == Place::shape_numbers) {
      SF_CHECK(shape_->size() < Shape::kMaxRank, DataError, where_, "tensor ", shown_name(name_), " has more than ",
               Shape::kMaxRank, " dimensions");
      SF_CHECK(std::in_range<std::int64_t>(number), DataError, where_, "tensor ", shown_name(name_),
               " has a dimension of ", number, ", which does not fit 63 bits");
      shape_->push_back(static_cast<std::int64_t>(number));
      return true;
    }
    if (place_ != Place::offset_numbers) refuse("a number");
    SF_CHECK(offsets_->size() < 2, DataError, where_, "tensor ", shown_name(name_), " has more than two data_offsets");
    offsets_->push_back(number);
    return true;
  }

  bool end_array() {
    SF_CHECK(place_ != Place::offset_numbers || offsets_->size() == 2, DataError, where_, "tensor ", shown_name(name_),
             " has ", offsets_->size(), " data_offsets; wanted [begin, end]");
    return go(Place::fields);
  }

  bool null() { refuse("null"); }
  bool boolean(bool) { refuse("a boolean"); }
  bool number_integer(std::int64_t) { refuse("a negative number"); }
  bool number_float(double, const std::string&) { refuse("a fraction or a number beyond 64 bits"); }
  bool binary(std::vector<std::uint8_t>&) { refuse("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    throw DataError(text_of(where_, "the header is no JSON: damaged at byte ", position, " of it"));
  }

 private:
  enum class Place {
    before,
    names,
    tensor_wanted,
    fields,
    dtype,
    shape,
    shape_numbers,
    offsets,
    offset_numbers,
    metadata_wanted,
    metadata,
    metadata_value,
    after
  };

  bool go(Place place) {
    place_ = place;
    return true;
  }

  [[noreturn]] void refuse(const char* found) const {
    static constexpr std::array<const char*, 13> wanted = {"the header to be an object",
                                                           "the name of a tensor",
                                                           "an object describing the tensor",
                                                           "dtype, shape or data_offsets",
                                                           "the name of a dtype",
                                                           "an array of dimensions",
                                                           "dimensions",
                                                           "an array [begin, end]",
                                                           "two offsets",
                                                           "an object of strings as __metadata__",
                                                           "a key of the metadata",
                                                           "a string as value of the metadata",
                                                           "the end"};
    throw DataError(text_of(where_, "the header has ", found, name_.empty() ? "" : " near " + shown_name(name_),
                            "; wanted ", wanted[static_cast<std::size_t>(place_)]));
  }

  bool start_value(std::string& name) {
    const bool is_new = names_.insert(name).second;
    SF_CHECK(is_new, DataError, where_, "the header has ", shown_name(name), " twice");
    name_ = std::move(name);
    dtype_.reset();
    shape_.reset();
    offsets_.reset();
    return go(name_ == kMetadataKey ? Place::metadata_wanted : Place::tensor_wanted);
  }

  bool start_field(const std::string& field) {
    const bool again =
        (field == "dtype" && dtype_) || (field == "shape" && shape_) || (field == "data_offsets" && offsets_);
    SF_CHECK(!again, DataError, where_, "tensor ", shown_name(name_), " has ", shown_name(field), " twice");
    if (field == "dtype") return go(Place::dtype);
    if (field == "shape") {
      shape_.emplace();
      return go(Place::shape);
    }
    SF_CHECK(field == "data_offsets", DataError, where_, "tensor ", shown_name(name_), " has the field ",
             shown_name(field), "; wanted dtype, shape and data_offsets");
    offsets_.emplace();
    return go(Place::offsets);
  }

  void finish_entry() {
    const char* missing = !dtype_ ? "dtype" : !shape_ ? "shape" : !offsets_ ? "data_offsets" : nullptr;
    SF_CHECK(missing == nullptr, DataError, where_, "tensor ", shown_name(name_), " has no ", missing);
    header_.entries.push_back({name_, {*dtype_, Shape(std::move(*shape_))}, (*offsets_)[0], (*offsets_)[1]});
  }

  const std::string& where_;
  SafetensorsHeader& header_;
  Place place_ = Place::before;
  std::set<std::string> names_;
  std::string* metadata_value_ = nullptr;
  // Of the tensor being read.
  std::string name_;
  std::optional<Dtype> dtype_;
  std::optional<std::vector<std::int64_t>> shape_;
  std::optional<std::vector<std::uint64_t>> offsets_;
};

void check_size(const HeaderEntry& entry, const std::string& where) {
  SF_CHECK(entry.begin <= entry.end, DataError, where, "tensor ", shown_name(entry.name), " ends at ", entry.end,
           " before it begins at ", entry.begin);
  std::size_t bytes = 0;
  try {
    bytes = entry.type.bytes();
  } catch (const ShapeError&) {
    throw DataError(text_of(where, "tensor ", shown_name(entry.name), " has the shape ", entry.type.shape,
                            ", whose size does not fit 64 bits"));
  }
  SF_CHECK(entry.end - entry.begin == bytes, DataError, where, "tensor ", shown_name(entry.name), " ",
           entry.type.text(), " needs ", bytes, " bytes but has ", entry.end - entry.begin);
}

/// Wanted: entries sorted by their bytes.
void check_cover(const std::vector<HeaderEntry>& entries, std::uint64_t data_bytes, const std::string& where) {
  std::uint64_t covered = 0;
  for (const HeaderEntry& entry : entries) {
    SF_CHECK(entry.begin == covered, DataError, where, "tensor ", shown_name(entry.name), " begins at byte ",
             entry.begin, " of the data but the one before ends at ", covered, "; wanted neither hole nor overlap");
    covered = entry.end;
  }
  SF_CHECK(covered == data_bytes, DataError, where, "the tensors need ", covered, " bytes but ", data_bytes,
           " follow the header; is the file complete?");
}

}  // namespace

std::string safetensors_header_text(const SafetensorsHeader& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json[kMetadataKey] = header.metadata;
  for (const HeaderEntry& entry : header.entries) {
    nlohmann::ordered_json& tensor = json[entry.name];
    tensor["dtype"] = format_name(entry.type.dtype);
    tensor["shape"] = entry.type.shape.dims();
    tensor["data_offsets"] = {entry.begin, entry.end};
  }
  try {
    std::string text = json.dump();
    text.resize(text.size() + (8 - text.size() % 8) % 8, ' ');
    return text;
  } catch (const nlohmann::json::type_error&) {
    throw ArgumentError("write_safetensors: a name, or a key or value of the metadata, is not UTF-8");
  }
}

SafetensorsHeader parse_safetensors_header(const std::string& text, std::uint64_t data_bytes,
                                           const std::string& where) {
  SF_CHECK(text.starts_with('{'), DataError, where, "the header does not begin with '{'; is it a safetensors file?");
  // The JSON library takes a zero byte for the end of the text and would ignore what follows.
  SF_CHECK(text.find('\0') == std::string::npos, DataError, where, "the header has a zero byte at ", text.find('\0'));
  SafetensorsHeader header;
  HeaderReader reader(where, header);
  nlohmann::json::sax_parse(text, &reader);
  for (const HeaderEntry& entry : header.entries) check_size(entry, where);
  const auto by_bytes = [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  };
  std::sort(header.entries.begin(), header.entries.end(), by_bytes);
  check_cover(header.entries, data_bytes, where);
  return header;
}

std::string shown_name(const std::string& name) {
  constexpr std::size_t kShown = 80;
  std::string text = "'";
  for (char c : name.substr(0, kShown)) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return text + (name.size() > kShown ? "...'" : "'");
}

}  // namespace sectionflow
