#include "sources/datum.h"

#include <climits>
#include <cstring>
#include <limits>
#include <optional>

#include "base/checked_arithmetic.h"
#include "sources/datum.pb.h"

namespace sectionflow {
namespace {

/// Element (row, column, channel) of a picture from its planes; `to_planes` goes the other way.
template <class T>
void reorder(const T* from, T* to, const Shape& shape, bool blue_first, bool to_planes) {
  const std::int64_t pixels = shape[0] * shape[1], channels = shape[2];
  const bool swaps = blue_first && channels == 3;
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const std::int64_t plane = swaps ? channels - 1 - channel : channel;
      const std::int64_t in_planes = plane * pixels + pixel, in_picture = pixel * channels + channel;
      to[to_planes ? in_planes : in_picture] = from[to_planes ? in_picture : in_planes];
    }
  }
}

HostTensor picture_in(const wire::Datum& datum, const LmdbOptions& options, const std::string& where) {
  const std::int64_t channels = datum.channels(), height = datum.height(), width = datum.width();
  SF_CHECK(channels > 0 && height > 0 && width > 0, DataError, where, "says a picture of ", channels, " channels of ",
           height, " x ", width);
  const bool has_floats = datum.float_data_size() > 0;
  const auto elements =
      static_cast<std::int64_t>(has_floats ? static_cast<std::size_t>(datum.float_data_size()) : datum.data().size());
  // Of three numbers of 31 bits the first two fit together.
  SF_CHECK(
      channels * height <= elements && elements % (channels * height) == 0 && elements / (channels * height) == width,
      DataError, where, "has ", elements, " elements; wanted ", channels, " channels of ", height, " x ", width);
  HostTensor picture(has_floats ? Dtype::f32 : Dtype::u8, {height, width, channels});
  if (has_floats) {
    reorder(datum.float_data().data(), picture.values<float>().data(), picture.shape(), options.blue_first, false);
  } else {
    reorder(reinterpret_cast<const std::uint8_t*>(datum.data().data()), picture.values<std::uint8_t>().data(),
            picture.shape(), options.blue_first, false);
  }
  return picture;
}

std::int32_t label_of(const HostTensor& tensor, const std::string& where) {
  std::optional<std::int64_t> label;
  if (tensor.num_elements() == 1) {
    if (tensor.dtype() == Dtype::i32) label = tensor.values<std::int32_t>()[0];
    if (tensor.dtype() == Dtype::i64) label = tensor.values<std::int64_t>()[0];
    if (tensor.dtype() == Dtype::u8) label = tensor.values<std::uint8_t>()[0];
  }
  SF_CHECK(label.has_value() && *label >= std::numeric_limits<std::int32_t>::min() &&
               *label <= std::numeric_limits<std::int32_t>::max(),
           DataError, where, "'label' is ", tensor.type().text(), "; wanted one number of 32 bits");
  return static_cast<std::int32_t>(*label);
}

}  // namespace

Example parse_datum(std::string_view bytes, const LmdbOptions& options, const std::string& where) {
  wire::Datum datum;
  SF_CHECK(bytes.size() <= INT_MAX && datum.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())), DataError,
           where, "its ", bytes.size(), " bytes are no Datum of Caffe's");
  Example example;
  if (!datum.encoded()) {
    example.emplace("image", picture_in(datum, options, where));
  } else if (options.decode) {
    example.emplace("image", decode_image(datum.data(), options.image, where));
  } else {
    HostTensor file(Dtype::u8, {static_cast<std::int64_t>(datum.data().size())});
    if (file.num_bytes() > 0) std::memcpy(file.bytes(), datum.data().data(), file.num_bytes());
    example.emplace("image", std::move(file));
  }
  example.emplace("label", HostTensor::scalar<std::int32_t>(datum.label()));
  return example;
}

std::string serialize_datum(const Example& example, const LmdbOptions& options, const std::string& where) {
  const auto image = example.find("image"), label = example.find("label");
  SF_CHECK(image != example.end() && label != example.end(), DataError, where, "lacks 'image' or 'label'",
           hint("rename its tensors"));
  const HostTensor& tensor = image->second;
  wire::Datum datum;
  datum.set_label(label_of(label->second, where));
  const bool is_picture = tensor.shape().rank() == 3 && (tensor.dtype() == Dtype::u8 || tensor.dtype() == Dtype::f32);
  const std::string_view bytes(reinterpret_cast<const char*>(tensor.bytes()), tensor.num_bytes());
  const bool is_file = tensor.shape().rank() == 1 && tensor.dtype() == Dtype::u8 && (is_jpeg(bytes) || is_png(bytes));
  SF_CHECK((is_picture || is_file) && tensor.num_bytes() > 0 && tensor.num_bytes() < INT_MAX, DataError, where,
           "'image' is ", tensor.type().text(), "; wanted u8 or f32 [H,W,C], or the bytes of a JPEG or PNG file");
  if (is_file) {
    datum.set_encoded(true);
    datum.set_data(bytes.data(), bytes.size());
    return datum.SerializeAsString();
  }
  datum.set_height(static_cast<std::int32_t>(tensor.shape()[0]));
  datum.set_width(static_cast<std::int32_t>(tensor.shape()[1]));
  datum.set_channels(static_cast<std::int32_t>(tensor.shape()[2]));
  if (tensor.dtype() == Dtype::u8) {
    auto* planes = datum.mutable_data();
    planes->resize(tensor.num_bytes());
    reorder(tensor.values<std::uint8_t>().data(), reinterpret_cast<std::uint8_t*>(planes->data()), tensor.shape(),
            options.blue_first, true);
  } else {
    auto* planes = datum.mutable_float_data();
    planes->Resize(static_cast<int>(tensor.num_elements()), 0.F);
    reorder(tensor.values<float>().data(), planes->mutable_data(), tensor.shape(), options.blue_first, true);
  }
  return datum.SerializeAsString();
}

}  // namespace sectionflow
