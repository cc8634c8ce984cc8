#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/export.h"
#include "base/shape.h"
#include "data/source.h"

namespace SF_API sectionflow {

/// How a tensor stands in a tf.train.Example.
enum class FeatureKind : std::uint8_t {
  values,  ///< a list of numbers: float_list for f32, int64_list for i32, i64, i8, u8 and boolean
  bytes,   ///< one byte string with the elements as they lie in memory, little-endian; files, such as an image's, as u8
};

/// A tensor to be read from each tf.train.Example. A shape whose first dimension is kDynamic takes as many elements as
/// there are, none where the feature is absent; any other wants as many as it has. {.name = "label", .dtype =
/// Dtype::i64, .shape = {}} is one number, {.name = "image/encoded", .dtype = Dtype::u8, .shape = {kDynamic}, .kind =
/// FeatureKind::bytes} a file.
struct FeatureSpec {
  std::string name{};
  Dtype dtype = Dtype::f32;
  Shape shape{};
  FeatureKind kind = FeatureKind::values;
};
using FeatureSchema = std::vector<FeatureSpec>;

/// Throws: ArgumentError for a schema that is empty or names a feature twice, for dtypes that lists of numbers do not
/// have (f64 and bf16 stand as bytes), and for unknown dimensions behind the first.
void check_schema(const FeatureSchema& schema);

/// The tensors of a serialized tf.train.Example; features that the schema does not name are left out. The record is not
/// trusted: memory stays below 64 times its bytes. Throws: DataError (SF-E410) naming the feature, for a record that is
/// none, or does not fit the schema: absent features, other lists, other numbers of elements, numbers out of the
/// dtype's range. `where` begins every error.
/// Source: tensorflow/core/example/feature.proto.
Example parse_tf_example(std::string_view record, const FeatureSchema& schema, const std::string& where);

/// A serialized tf.train.Example of these tensors: f32 as float_list, i32, i64 and boolean as int64_list, the other
/// dtypes as bytes. Shapes are not in it. The same tensors give the same bytes.
std::string serialize_tf_example(const Example& example);

/// What parse_tf_example reads the same tensors back with.
FeatureSchema schema_of(const Example& example);

}  // namespace sectionflow
