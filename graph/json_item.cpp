#include "graph/json_item.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/nearest.h"

namespace sectionflow {
namespace {

using nlohmann::json;

constexpr std::string_view kNan = "nan:";
constexpr std::array kDtypes = {Dtype::f32, Dtype::f64,     Dtype::i32,  Dtype::i64,
                                Dtype::u8,  Dtype::boolean, Dtype::bf16, Dtype::i8};

/// A few letters of a text that may hold anything.
std::string shown(const std::string& text) {
  constexpr std::size_t kShown = 60;
  std::string result = "'";
  for (char c : text.substr(0, kShown)) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return result + (text.size() > kShown ? "...'" : "'");
}

std::string shown(const json& value) {
  if (value.is_string()) return shown(value.get_ref<const std::string&>());
  if (value.is_array()) return text_of("an array of ", value.size());
  return value.is_object() ? "an object" : value.dump();
}

/// The nearest of the names, or all of a few.
std::string did_you_mean(const std::string& text, std::span<const std::string> names) {
  if (const auto nearest = nearest_spelling(text, names)) return "; did you mean '" + *nearest + "'?";
  constexpr std::size_t kFew = 12;
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "; wanted one of " : ", ") + name;
  return names.size() <= kFew ? all : std::string();
}

}  // namespace

void refuse_at(const std::string& path, const ErrorText& text) {
  ErrorText whole(text_of("load_graph: ", path, path.empty() ? "" : ": ", text.message));
  whole.facts = text.facts;
  DataError error(std::move(whole), ErrorCode::graph_file);
  error.add_fact("at", path);
  throw error;
}

void JsonItem::refuse(const ErrorText& text) const {
  refuse_at(path_, text);
}
void JsonItem::refuse_kind(const std::string& wanted) const {
  refuse(text_of("got ", shown(*value_), "; wanted ", wanted));
}

bool JsonItem::has(const char* name) const {
  if (!value_->is_object()) refuse_kind("an object");
  return value_->contains(name);
}
JsonItem JsonItem::member(const char* name) const {
  if (!has(name)) refuse(text_of("has no '", name, "'"));
  return {*value_->find(name), text_of(path_, path_.empty() ? "" : ".", name)};
}
void JsonItem::check_members(std::span<const std::string> known) const {
  if (!value_->is_object()) refuse_kind("an object");
  for (const auto& [name, value] : value_->items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    refuse(text_of("has the unknown member ", shown(name), did_you_mean(name, known)));
  }
}

std::size_t JsonItem::size() const {
  if (!value_->is_array()) refuse_kind("an array");
  return value_->size();
}
JsonItem JsonItem::operator[](std::size_t index) const {
  if (index >= size()) refuse(text_of("has ", size(), " elements; wanted one more at least"));
  return {(*value_)[index], text_of(path_, "[", index, "]")};
}

bool JsonItem::is_null() const {
  return value_->is_null();
}
bool JsonItem::boolean() const {
  if (!value_->is_boolean()) refuse_kind("true or false");
  return value_->get<bool>();
}
std::int64_t JsonItem::integer(std::int64_t least, std::int64_t most) const {
  const bool fits = value_->is_number_integer() &&
                    (!value_->is_number_unsigned() || std::in_range<std::int64_t>(value_->get<std::uint64_t>()));
  if (!fits) refuse_kind("a whole number of 64 bits");
  const auto number = value_->get<std::int64_t>();
  if (number < least || number > most) refuse_kind(text_of("a number from ", least, " to ", most));
  return number;
}
double JsonItem::number() const {
  if (value_->is_number()) return value_->get<double>();
  if (!value_->is_string()) refuse_kind("a number");
  const std::string& text = value_->get_ref<const std::string&>();
  if (text == "infinity") return std::numeric_limits<double>::infinity();
  if (text == "-infinity") return -std::numeric_limits<double>::infinity();
  std::uint64_t bits = 0;
  if (text.starts_with(kNan) && text.size() == kNan.size() + 16) {
    const char* end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data() + kNan.size(), end, bits, 16);
    const auto value = std::bit_cast<double>(bits);
    if (error == std::errc() && last == end && std::isnan(value)) return value;
  }
  refuse_kind("a number, 'infinity', '-infinity' or 'nan:' and 16 digits");
}
const std::string& JsonItem::text(std::size_t most_bytes) const {
  if (!value_->is_string()) refuse_kind("a text");
  const auto& text = value_->get_ref<const std::string&>();
  if (text.size() > most_bytes) refuse(text_of("got a text of ", text.size(), " bytes; wanted at most ", most_bytes));
  return text;
}
std::size_t JsonItem::one_of(std::span<const std::string> names, const char* what) const {
  const std::string& name = text();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    refuse(text_of("got the ", what, " ", shown(name), ", which is unknown", did_you_mean(name, names)));
  return static_cast<std::size_t>(found - names.begin());
}

Dtype JsonItem::dtype() const {
  std::vector<std::string> names;
  for (Dtype dtype : kDtypes) names.emplace_back(dtype_name(dtype));
  return kDtypes[one_of(names, "dtype")];
}
Shape JsonItem::shape() const {
  const std::size_t rank = size();
  if (rank > Shape::kMaxRank) refuse(text_of("got ", rank, " dimensions; wanted at most ", Shape::kMaxRank));
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < rank; ++i) dims.push_back((*this)[i].integer(kDynamic));
  return Shape(std::move(dims));
}
TensorType JsonItem::type() const {
  if (size() != 2) refuse_kind("a dtype and a shape");
  return {(*this)[0].dtype(), (*this)[1].shape()};
}

nlohmann::ordered_json json_of_number(double number) {
  if (std::isfinite(number)) return number;
  if (std::isinf(number)) return number > 0 ? "infinity" : "-infinity";
  std::array<char, 17> digits{};
  std::to_chars(digits.data(), digits.data() + 16, std::bit_cast<std::uint64_t>(number), 16);
  return text_of(kNan, digits.data());
}
nlohmann::ordered_json json_of_type(const TensorType& type) {
  return {dtype_name(type.dtype), type.shape.dims()};
}

}  // namespace sectionflow
