// Data in other people's formats: arrays of HDF5 and NumPy, and databases of pictures.

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text_table.h"
#include "data/idx.h"
#include "data/npy.h"
#include "sources/hdf5.h"
#include "sources/image_folder.h"
#include "sources/lmdb.h"
#include "sources/npz.h"
#include "tools/converted_parts.h"
#include "tools/inspection.h"
#include "tools/labelled_source.h"

namespace sectionflow {
namespace {

constexpr std::size_t kShownElements = 4;

template <class T>
std::string listed(const HostTensor& tensor) {
  std::string text;
  const auto values = tensor.values<T>();
  const std::size_t shown = std::min(values.size(), kShownElements);
  // Numbers of eight bits are no letters.
  for (std::size_t i = 0; i < shown; ++i) text += text_of(i > 0 ? ", " : "", +values[i]);
  return text + (values.size() > shown ? ", ..." : "");
}

/// "1, 2, 3, 4, ...": the first elements.
std::string elements_text(const HostTensor& tensor) {
  switch (tensor.dtype()) {
    case Dtype::f32:
      return listed<float>(tensor);
    case Dtype::f64:
      return listed<double>(tensor);
    case Dtype::i32:
      return listed<std::int32_t>(tensor);
    case Dtype::i64:
      return listed<std::int64_t>(tensor);
    case Dtype::i8:
      return listed<std::int8_t>(tensor);
    case Dtype::u8:
      return listed<std::uint8_t>(tensor);
    case Dtype::boolean:
      return listed<bool>(tensor);
    default:
      return {};
  }
}

Inspection single_tensor(const HostTensor& tensor) {
  const std::string elements = elements_text(tensor);
  Inspection inspection{.text = tensor.type().text() + ", " + bytes_text(tensor.num_bytes()) +
                                (elements.empty() ? "" : ": " + elements) + "\n"};
  inspection.json = {{"dtype", dtype_name(tensor.dtype())},
                     {"shape", tensor.shape().dims()},
                     {"bytes", tensor.num_bytes()},
                     {"first_elements", elements}};
  return inspection;
}

Json row_of(const std::string& name, const TensorType& type, const std::string& elements) {
  return {{"name", name},
          {"dtype", dtype_name(type.dtype)},
          {"shape", type.shape.dims()},
          {"bytes", type.bytes()},
          {"first_elements", elements}};
}

/// The first elements of a dataset's first row.
std::string first_row(const std::filesystem::path& path, const Hdf5Dataset& dataset) {
  const Shape& shape = dataset.type.shape;
  if (shape.rank() == 0) return elements_text(read_hdf5(path, dataset.name));
  if (shape[0] == 0) return {};
  const auto rows = hdf5_source(path, {{"row", dataset.name}});
  return elements_text(rows->at(0).at("row"));
}

}  // namespace

Inspection inspect_npy(const std::filesystem::path& path) {
  return single_tensor(read_npy(path));
}

Inspection inspect_idx(const std::filesystem::path& path) {
  return single_tensor(read_idx(path));
}

Inspection inspect_npz(const std::filesystem::path& path) {
  const Example arrays = read_npz(path);
  Inspection inspection;
  TextTable table({"array", "type", "bytes", "first elements"});
  Json rows = Json::array();
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : arrays) {
    const std::string elements = elements_text(tensor);
    table.add_row({printable(name), tensor.type().text(), bytes_text(tensor.num_bytes()), elements});
    rows.push_back(row_of(name, tensor.type(), elements));
    bytes += tensor.num_bytes();
  }
  if (!arrays.empty()) inspection.text += table.text();
  inspection.text += counted(arrays.size(), "array") + ", " + bytes_text(bytes) + "; every checksum is right\n";
  inspection.json = {{"arrays", rows}, {"array_bytes", bytes}};
  return inspection;
}

Inspection inspect_hdf5(const std::filesystem::path& path) {
  const std::vector<Hdf5Dataset> datasets = list_hdf5(path);
  Inspection inspection;
  TextTable table({"dataset", "type", "bytes", "first row", "problem"});
  Json rows = Json::array();
  for (const Hdf5Dataset& dataset : datasets) {
    if (!dataset.problem.empty()) {
      table.add_row({printable(dataset.name), "", "", "", printable(dataset.problem)});
      rows.push_back({{"name", dataset.name}, {"problem", dataset.problem}});
      continue;
    }
    std::string elements, problem;
    // A damaged chunk, or a row that is too large, says nothing of the other datasets.
    try {
      elements = first_row(path, dataset);
    } catch (const DataError& error) {
      problem = error.message();
    }
    table.add_row(
        {printable(dataset.name), dataset.type.text(), bytes_text(dataset.type.bytes()), elements, printable(problem)});
    rows.push_back(row_of(dataset.name, dataset.type, elements));
    if (!problem.empty()) rows.back()["problem"] = problem;
  }
  if (!datasets.empty()) inspection.text += table.text();
  inspection.text += counted(datasets.size(), "dataset") + "; what they hold behind the first row is not read\n";
  inspection.json["datasets"] = rows;
  return inspection;
}

Inspection inspect_lmdb(const std::filesystem::path& path) {
  constexpr std::int64_t kShownRecords = 3;
  // The databases of a data set's parts stand in one folder.
  const std::filesystem::path database = std::filesystem::absolute(path).lexically_normal();
  check_complete((database.has_filename() ? database : database.parent_path()).parent_path());
  const auto source = lmdb_source(path, {.decode = false});
  const auto stream = source->open();
  const bool is_folder = std::filesystem::is_directory(path);
  ClassCounts classes(is_folder ? read_class_names(path) : ClassNames());
  Inspection inspection;
  Json first = Json::array();
  std::int64_t records = 0;
  for (; const auto example = stream->next(); ++records) {
    const std::int64_t label = example->at("label").item<std::int32_t>();
    classes.add(label);
    if (records >= kShownRecords) continue;
    const HostTensor& image = example->at("image");
    const std::string what =
        image.shape().rank() == 1 ? bytes_text(image.num_bytes()) + " of a picture's file" : image.type().text();
    inspection.text += "record " + std::to_string(records) + "  " + what + ", label " + std::to_string(label) + "\n";
    first.push_back({{"image", what}, {"label", label}});
  }
  inspection.text += counted(static_cast<std::size_t>(records), "record") + "; every page is sound\n" + classes.text();
  inspection.json = {{"records", records}, {"first_records", first}, {"classes", classes.json()}};
  return inspection;
}

Inspection inspect_images(const std::filesystem::path& path) {
  Inspection inspection;
  Json parts = Json::array();
  std::size_t pictures = 0;
  for (const PictureFolder& part : picture_parts(path)) {
    const ImageFolder folder = image_folder(part.path, {.decode = false});
    ClassCounts classes(class_names_of(folder.classes), "picture");
    for (const std::string& file : folder.files) {
      // Classes stand in their order.
      const std::string name = std::filesystem::path(file).parent_path().string();
      classes.add(std::lower_bound(folder.classes.begin(), folder.classes.end(), name) - folder.classes.begin());
    }
    inspection.text += part.name + ": " + counted(folder.files.size(), "picture") + "; " + classes.text();
    parts.push_back({{"part", part.name}, {"pictures", folder.files.size()}, {"classes", classes.json()}});
    pictures += folder.files.size();
  }
  inspection.text +=
      counted(pictures, "picture") +
      ", none of them looked at; 'sectionflow train --data images:FOLDER' reads them, and so does 'sectionflow "
      "convert images:FOLDER'\n";
  inspection.json = {{"parts", parts}, {"pictures", pictures}};
  return inspection;
}

Inspection inspect_lmdb_parts(const std::filesystem::path& path) {
  Inspection inspection;
  Json parts = Json::array();
  std::int64_t records = 0;
  for (const std::filesystem::path& database : database_parts_in(path)) {
    const std::string name = database.filename().string();
    Inspection part = inspect_lmdb(database);
    inspection.text += name + ": " + part.text;
    Json json = {{"part", name}};
    json.update(part.json);
    records += json.at("records").get<std::int64_t>();
    parts.push_back(std::move(json));
  }
  inspection.text += counted(parts.size(), "part") + ", " + counted(static_cast<std::size_t>(records), "record") + "\n";
  inspection.json = {{"parts", parts}, {"records", records}};
  return inspection;
}

}  // namespace sectionflow
