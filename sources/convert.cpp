#include "sources/convert.h"

#include <cstring>
#include <string_view>

#include "base/error.h"
#include "sources/image.h"

namespace sectionflow {
namespace {

HostTensor bytes_tensor(std::string_view bytes) {
  HostTensor tensor(Dtype::u8, {static_cast<std::int64_t>(bytes.size())});
  if (!bytes.empty()) std::memcpy(tensor.bytes(), bytes.data(), bytes.size());
  return tensor;
}

std::int64_t class_of(const HostTensor& label, const std::string& where) {
  const bool is_one = label.num_elements() == 1;
  if (is_one && label.dtype() == Dtype::i32) return label.values<std::int32_t>()[0];
  if (is_one && label.dtype() == Dtype::i64) return label.values<std::int64_t>()[0];
  if (is_one && label.dtype() == Dtype::u8) return label.values<std::uint8_t>()[0];
  throw DataError(text_of(where, "'label' is ", label.type().text(), "; wanted one number i32, i64 or u8"));
}

/// With the features that readers of such files look for.
Example as_features(const Example& example, const ClassNames& classes, const std::string& where) {
  const auto image = example.find("image"), label = example.find("label");
  SF_CHECK(image != example.end() && label != example.end(), DataError, where, "lacks 'image' or 'label'",
           hint("rename its tensors"));
  const HostTensor& tensor = image->second;
  const std::string_view bytes(reinterpret_cast<const char*>(tensor.bytes()), tensor.num_bytes());
  const bool is_picture = tensor.shape().rank() == 3, is_file = tensor.shape().rank() == 1;
  SF_CHECK(tensor.dtype() == Dtype::u8 && (is_picture || (is_file && (is_jpeg(bytes) || is_png(bytes)))), DataError,
           where, "'image' is ", tensor.type().text(), "; wanted u8 [H,W,C], or the bytes of a JPEG or PNG file");
  Example features;
  features.emplace("image/encoded", bytes_tensor(bytes));
  features.emplace("image/format", bytes_tensor(is_picture ? "raw" : is_jpeg(bytes) ? "jpeg" : "png"));
  const std::int64_t number = class_of(label->second, where);
  features.emplace("image/class/label", HostTensor::scalar<std::int64_t>(number));
  if (!classes.empty()) {
    const auto name = classes.find(number);
    SF_CHECK(name != classes.end(), DataError, where, "its class ", number, " has no name; ", classes.size(), " have");
    features.emplace("image/class/text", bytes_tensor(name->second));
  }
  if (is_picture) {
    features.emplace("image/height", HostTensor::scalar<std::int64_t>(tensor.shape()[0]));
    features.emplace("image/width", HostTensor::scalar<std::int64_t>(tensor.shape()[1]));
    features.emplace("image/channels", HostTensor::scalar<std::int64_t>(tensor.shape()[2]));
  }
  return features;
}

}  // namespace

std::vector<std::filesystem::path> write_image_tfrecords(const std::filesystem::path& folder, const std::string& prefix,
                                                         const IndexedSource& source, TfrecordWriterOptions options,
                                                         const ClassNames& classes) {
  TfrecordWriter writer(folder, prefix, options);
  for (std::int64_t i = 0; i < source.size(); ++i)
    writer.write(
        as_features(source.at(i), classes, text_of("write_image_tfrecords: ", source.name(), ": example ", i, ": ")));
  return writer.finish();
}

FeatureSchema image_tfrecord_schema() {
  return {{.name = "image/encoded", .dtype = Dtype::u8, .shape = {kDynamic}, .kind = FeatureKind::bytes},
          {.name = "image/class/label", .dtype = Dtype::i64, .shape = {}, .kind = FeatureKind::values}};
}

}  // namespace sectionflow
