#include "graph/option_fields.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/base64.h"
#include "base/host_tensor.h"
#include "graph/graph.h"
#include "graph/json_item.h"
#include "graph/json_members.h"

namespace sectionflow {
namespace {

using nlohmann::ordered_json;
using SharedTensor = std::shared_ptr<const HostTensor>;

// ---- Writing: one function a kind of field.

template <class Whole>
ordered_json json_of(const Whole& whole) {
  return whole;
}
ordered_json json_of(float number) {
  return json_of_number(number);
}
ordered_json json_of(double number) {
  return json_of_number(number);
}
ordered_json json_of(const std::optional<float>& number) {
  return number ? json_of_number(*number) : ordered_json();
}
ordered_json json_of(Dtype dtype) {
  return dtype_name(dtype);
}
ordered_json json_of(const Shape& shape) {
  return shape.dims();
}
ordered_json json_of(const TensorType& type) {
  return json_of_type(type);
}
ordered_json json_of(const std::vector<TensorType>& types) {
  ordered_json all = ordered_json::array();
  for (const TensorType& type : types) all.push_back(json_of_type(type));
  return all;
}
ordered_json json_of(const SharedTensor& tensor) {
  return {{"type", json_of_type(tensor->type())}, {"bytes", base64_text({tensor->bytes(), tensor->num_bytes()})}};
}

// ---- Reading.

void read_field(const JsonItem& item, bool& field) {
  field = item.boolean();
}
void read_field(const JsonItem& item, int& field) {
  field = static_cast<int>(item.integer(INT32_MIN, INT32_MAX));
}
void read_field(const JsonItem& item, std::int64_t& field) {
  field = item.integer();
}
void read_field(const JsonItem& item, std::uint32_t& field) {
  field = static_cast<std::uint32_t>(item.integer(0, UINT32_MAX));
}
void read_field(const JsonItem& item, double& field) {
  field = item.number();
}
void read_field(const JsonItem& item, float& field) {
  const double number = item.number();
  if (std::isfinite(number) && std::abs(number) > std::numeric_limits<float>::max())
    item.refuse_kind("a number of f32");
  field = static_cast<float>(number);
}
void read_field(const JsonItem& item, std::optional<float>& field) {
  if (item.is_null()) return;
  read_field(item, field.emplace());
}
void read_field(const JsonItem& item, std::string& field) {
  field = item.text();
}
void read_field(const JsonItem& item, Dtype& field) {
  field = item.dtype();
}
void read_field(const JsonItem& item, Shape& field) {
  field = item.shape();
}
void read_field(const JsonItem& item, TensorType& field) {
  field = item.type();
}
template <class Element>
void read_field(const JsonItem& item, std::vector<Element>& field) {
  const std::size_t size = item.size();
  for (std::size_t i = 0; i < size; ++i) {
    Element element{};
    read_field(item[i], element);
    field.push_back(element);
  }
}
void read_field(const JsonItem& item, SharedTensor& field) {
  static const std::vector<std::string> known = {"type", "bytes"};
  item.check_members(known);
  const JsonItem bytes = item.member("bytes");
  const std::string& text = bytes.text(std::numeric_limits<std::size_t>::max());
  const TensorType type = item.member("type").type();
  std::optional<std::size_t> wanted;
  try {
    wanted = type.bytes();
  } catch (const ShapeError& error) {
    item.refuse(text_of("a tensor of the type ", type.text(), ": ", error.message()));
  }
  const auto num_bytes = base64_bytes(text);
  if (num_bytes != wanted) {
    bytes.refuse(text_of("got ", num_bytes ? text_of(*num_bytes) : "no whole number of", " bytes for ", type.text(),
                         "; wanted ", *wanted));
  }
  // Allocated only now, when the file has shown that it holds so many bytes.
  HostTensor tensor(type);
  if (!read_base64(text, {tensor.bytes(), tensor.num_bytes()})) bytes.refuse("no base64");
  if (type.dtype == Dtype::boolean) {
    const auto is_boolean = [](std::byte byte) { return byte <= std::byte{1}; };
    if (!std::all_of(tensor.bytes(), tensor.bytes() + tensor.num_bytes(), is_boolean)) {
      bytes.refuse("a boolean that is neither 0 nor 1");
    }
  }
  field = std::make_shared<const HostTensor>(std::move(tensor));
}

}  // namespace

template <class Field>
void OptionWriter::operator()(const char* name, const Field& field) {
  SF_CHECK(!object_.members.contains(name), InternalError, "the field '", name, "' is described twice");
  object_.members[name] = json_of(field);
}
void OptionWriter::operation(const char* name, const std::shared_ptr<Operation>& field) {
  (*this)(name, static_cast<std::int64_t>(field->node().id()));
}

bool OptionReader::has(const char* name) const {
  return object_.has(name);
}
JsonItem OptionReader::field_called(const char* name) {
  read_.emplace_back(name);
  return object_.member(name);
}
template <class Field>
void OptionReader::operator()(const char* name, Field& field) {
  read_field(field_called(name), field);
}
std::ptrdiff_t OptionReader::chosen(const char* name, const std::vector<std::string>& names) {
  return static_cast<std::ptrdiff_t>(field_called(name).one_of(names, name));
}
void OptionReader::operation(const char* name, std::shared_ptr<Operation>& field) {
  const JsonItem item = field_called(name);
  field = std::make_shared<Operation>();
  later_.push_back({field, static_cast<NodeId>(item.integer(0, INT32_MAX)), item.path()});
}
void OptionReader::check_all_read() const {
  object_.check_members(read_);
}

void OptionChecker::check_dtype(const char* name, Dtype dtype) const {
  if (is_dtype(dtype)) return;
  refuse(name, static_cast<long long>(dtype), {"f32", "f64", "i32", "i64", "u8", "bool", "bf16"});
}
void OptionChecker::refuse(const char* name, long long number, const std::vector<std::string>& names) const {
  std::string wanted;
  for (std::size_t i = 0; i < names.size(); ++i) {
    wanted += text_of(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  }
  throw ArgumentError(text_of(label_, ": ", name, " is ", number, ", which is none of its values; wanted ", wanted));
}

// What a field may be.
#define SF_FIELD(...)                                                      \
  template void OptionWriter::operator()(const char*, const __VA_ARGS__&); \
  template void OptionReader::operator()(const char*, __VA_ARGS__&);
SF_FIELD(bool)
SF_FIELD(int)
SF_FIELD(std::int64_t)
SF_FIELD(std::uint32_t)
SF_FIELD(float)
SF_FIELD(double)
SF_FIELD(std::string)
SF_FIELD(Dtype)
SF_FIELD(Shape)
SF_FIELD(TensorType)
SF_FIELD(std::vector<bool>)
SF_FIELD(std::vector<int>)
SF_FIELD(std::vector<std::int64_t>)
SF_FIELD(std::vector<TensorType>)
SF_FIELD(std::optional<float>)
SF_FIELD(std::shared_ptr<const HostTensor>)
#undef SF_FIELD

}  // namespace sectionflow
