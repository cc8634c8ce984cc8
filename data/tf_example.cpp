#include "data/tf_example.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "base/checked_arithmetic.h"
#include "base/nearest.h"
#include "data/example.pb.h"
#include "data/wire_message.h"

namespace sectionflow {
namespace {

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw DataError(error_text_of(parts...), ErrorCode::example_mismatch);
}

bool is_variable(const FeatureSpec& spec) {
  return spec.shape.rank() > 0 && spec.shape[0] == kDynamic;
}

std::string spec_text(const FeatureSpec& spec) {
  return text_of("'", spec.name, "' ", TensorType{spec.dtype, spec.shape}.text());
}

/// The tensor's shape when there are `count` elements.
Shape shape_of(const FeatureSpec& spec, std::size_t count, const std::string& where) {
  if (!is_variable(spec)) {
    if (count != static_cast<std::size_t>(spec.shape.num_elements()))
      refuse(where, "feature ", spec_text(spec), " has ", count, " elements");
    return spec.shape;
  }
  std::vector<std::int64_t> dims = spec.shape.dims();
  dims[0] = 1;
  const auto each = static_cast<std::size_t>(Shape(dims).num_elements());
  if (each == 0 || count % each != 0) refuse(where, "feature ", spec_text(spec), " has ", count, " elements");
  dims[0] = static_cast<std::int64_t>(count / each);
  return Shape(std::move(dims));
}

template <class T>
void copy_numbers(const google::protobuf::RepeatedField<std::int64_t>& from, HostTensor& to, const FeatureSpec& spec,
                  const std::string& where) {
  const auto out = to.values<T>();
  for (int i = 0; i < from.size(); ++i) {
    const std::int64_t number = from[i];
    if (number < std::int64_t{std::numeric_limits<T>::lowest()} || number > std::int64_t{std::numeric_limits<T>::max()})
      refuse(where, "feature ", spec_text(spec), " has the number ", number, " at element ", i);
    out[static_cast<std::size_t>(i)] = static_cast<T>(number);
  }
}

HostTensor tensor_of_bytes(const wire::BytesList& list, const FeatureSpec& spec, const std::string& where) {
  if (list.value_size() != 1) {
    refuse(where, "feature ", spec_text(spec), " has ", list.value_size(), " byte strings; wanted one");
  }
  const std::string& bytes = list.value(0);
  const std::size_t each = dtype_bytes(spec.dtype);
  if (bytes.size() % each != 0)
    refuse(where, "feature ", spec_text(spec), " has ", bytes.size(), " bytes, not whole elements of ", each);
  HostTensor tensor(spec.dtype, shape_of(spec, bytes.size() / each, where));
  if (!bytes.empty()) std::memcpy(tensor.bytes(), bytes.data(), bytes.size());
  if (spec.dtype == Dtype::boolean && std::any_of(bytes.begin(), bytes.end(), [](char c) { return c != 0 && c != 1; }))
    refuse(where, "feature ", spec_text(spec), " has a byte other than 0 and 1");
  return tensor;
}

HostTensor tensor_of_numbers(const wire::Feature& feature, const FeatureSpec& spec, const std::string& where) {
  if (spec.dtype == Dtype::f32) {
    const auto& list = feature.float_list().value();
    HostTensor tensor(spec.dtype, shape_of(spec, static_cast<std::size_t>(list.size()), where));
    std::copy(list.begin(), list.end(), tensor.values<float>().begin());
    return tensor;
  }
  const auto& list = feature.int64_list().value();
  HostTensor tensor(spec.dtype, shape_of(spec, static_cast<std::size_t>(list.size()), where));
  switch (spec.dtype) {
    case Dtype::i32:
      copy_numbers<std::int32_t>(list, tensor, spec, where);
      break;
    case Dtype::i8:
      copy_numbers<std::int8_t>(list, tensor, spec, where);
      break;
    case Dtype::u8:
      copy_numbers<std::uint8_t>(list, tensor, spec, where);
      break;
    case Dtype::boolean:
      copy_numbers<bool>(list, tensor, spec, where);
      break;
    default:
      copy_numbers<std::int64_t>(list, tensor, spec, where);
  }
  return tensor;
}

const char* list_name(wire::Feature::KindCase kind) {
  switch (kind) {
    case wire::Feature::kBytesList:
      return "bytes_list";
    case wire::Feature::kFloatList:
      return "float_list";
    case wire::Feature::kInt64List:
      return "int64_list";
    default:
      return "nothing";
  }
}

wire::Feature::KindCase list_of(const FeatureSpec& spec) {
  if (spec.kind == FeatureKind::bytes) return wire::Feature::kBytesList;
  return spec.dtype == Dtype::f32 ? wire::Feature::kFloatList : wire::Feature::kInt64List;
}

using FeatureMap = google::protobuf::Map<std::string, wire::Feature>;

/// What a record has in place of a feature that it lacks.
[[noreturn]] void refuse_absent(const FeatureSpec& spec, const FeatureMap& features, const std::string& where) {
  std::vector<std::string> names;
  for (const auto& [name, feature] : features) names.push_back(name);
  std::sort(names.begin(), names.end());
  const NamesInFile known = names_in_file(spec.name, names,
                                          "name a feature of the record; of one that some records lack the first "
                                          "dimension is kDynamic");
  refuse(where, "feature ", spec_text(spec), " is absent; the record has ", known.list, known.hint);
}

HostTensor tensor_of(const FeatureMap& features, const FeatureSpec& spec, const std::string& where) {
  const auto found = features.find(spec.name);
  const wire::Feature* const feature = found == features.end() ? nullptr : &found->second;
  const bool is_absent = feature == nullptr || feature->kind_case() == wire::Feature::KIND_NOT_SET;
  if (is_absent) {
    if (!is_variable(spec)) refuse_absent(spec, features, where);
    return HostTensor(spec.dtype, shape_of(spec, 0, where));
  }
  const auto wanted = list_of(spec);
  if (feature->kind_case() != wanted) {
    refuse(where, "feature ", spec_text(spec), " is a ", list_name(feature->kind_case()), "; wanted a ",
           list_name(wanted), hint("say another dtype or kind in the schema"));
  }
  return wanted == wire::Feature::kBytesList ? tensor_of_bytes(feature->bytes_list(), spec, where)
                                             : tensor_of_numbers(*feature, spec, where);
}

template <class T>
void add_numbers(wire::Feature& feature, const HostTensor& tensor) {
  auto& list = *feature.mutable_int64_list()->mutable_value();
  list.Reserve(static_cast<int>(tensor.num_elements()));
  for (const T number : tensor.values<T>()) list.AddAlreadyReserved(number);
}

FeatureKind kind_of(Dtype dtype) {
  const bool is_list = dtype == Dtype::f32 || dtype == Dtype::i32 || dtype == Dtype::i64 || dtype == Dtype::boolean;
  return is_list ? FeatureKind::values : FeatureKind::bytes;
}

void add_tensor(wire::Feature& feature, const HostTensor& tensor) {
  switch (tensor.dtype()) {
    case Dtype::f32: {
      const auto values = tensor.values<float>();
      feature.mutable_float_list()->mutable_value()->Add(values.begin(), values.end());
      break;
    }
    case Dtype::i32:
      add_numbers<std::int32_t>(feature, tensor);
      break;
    case Dtype::i64:
      add_numbers<std::int64_t>(feature, tensor);
      break;
    case Dtype::boolean:
      add_numbers<bool>(feature, tensor);
      break;
    default:
      feature.mutable_bytes_list()->add_value(tensor.bytes(), tensor.num_bytes());
  }
}

}  // namespace

void check_schema(const FeatureSchema& schema) {
  SF_CHECK(!schema.empty(), ArgumentError, "a schema of tf.train.Example names no feature; wanted one at least");
  std::set<std::string> names;
  for (const FeatureSpec& spec : schema) {
    SF_CHECK(names.insert(spec.name).second, ArgumentError, "the schema names the feature '", spec.name, "' twice");
    const bool is_list_dtype = spec.dtype != Dtype::f64 && spec.dtype != Dtype::bf16;
    SF_CHECK(spec.kind == FeatureKind::bytes || is_list_dtype, ArgumentError, "feature ", spec_text(spec),
             ": no list of numbers has this dtype; wanted f32, i32, i64, i8, u8 or boolean, or FeatureKind::bytes");
    for (int axis = 1; axis < spec.shape.rank(); ++axis) {
      SF_CHECK(spec.shape[axis] != kDynamic, ArgumentError, "feature ", spec_text(spec),
               ": only the first dimension may be unknown");
    }
    std::vector<std::int64_t> dims = spec.shape.dims();
    if (is_variable(spec)) dims[0] = 1;
    const std::int64_t each = Shape(dims).num_elements();  // that it fits 64 bits
    SF_CHECK(!is_variable(spec) || each > 0, ArgumentError, "feature ", spec_text(spec),
             ": a dimension of 0 says nothing of how many there are along the first");
  }
}

Example parse_tf_example(std::string_view record, const FeatureSchema& schema, const std::string& where) {
  if (record.size() > INT_MAX) refuse(where, "a tf.train.Example of ", record.size(), " bytes; at most ", INT_MAX);
  google::protobuf::Arena arena;
  auto* parsed = google::protobuf::Arena::CreateMessage<wire::Example>(&arena);
  if (!parse_message(*parsed, record, kExampleMessage)) {
    refuse(where, "its ", record.size(), " bytes are no tf.train.Example",
           hint("is the file one of tf.train.Example, and not of other messages?"));
  }
  const auto& features = parsed->features().feature();
  Example example;
  for (const FeatureSpec& spec : schema) example.emplace(spec.name, tensor_of(features, spec, where));
  return example;
}

std::string serialize_tf_example(const Example& example) {
  wire::Example message;
  auto& features = *message.mutable_features()->mutable_feature();
  std::int64_t most_bytes = 0;
  for (const auto& [name, tensor] : example) {
    // A number of an int64_list takes ten bytes at most.
    const bool is_list = kind_of(tensor.dtype()) == FeatureKind::values && tensor.dtype() != Dtype::f32;
    most_bytes = checked_add(most_bytes, is_list ? checked_multiply(tensor.num_elements(), 10)
                                                 : static_cast<std::int64_t>(tensor.num_bytes()));
    SF_CHECK(most_bytes <= INT_MAX, ArgumentError, "tensor '", name, "' ", tensor.type().text(),
             " is too large for a tf.train.Example, which has 2 GiB at most");
    add_tensor(features[name], tensor);
  }
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // features by name
    SF_CHECK(
        message.SerializeToCodedStream(&coded), ArgumentError,
        "the example's tensors cannot be put into a tf.train.Example: it is of 2 GiB or more, or a name is no UTF-8");
  }
  return bytes;
}

FeatureSchema schema_of(const Example& example) {
  FeatureSchema schema;
  for (const auto& [name, tensor] : example)
    schema.push_back({name, tensor.dtype(), tensor.shape(), kind_of(tensor.dtype())});
  return schema;
}

}  // namespace sectionflow
