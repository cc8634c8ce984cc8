#include "tools/training_data.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "data/dataset.h"
#include "data/maps.h"
#include "data/source_identity.h"
#include "data/text.h"
#include "data/tfrecord_source.h"
#include "sources/image.h"
#include "sources/lmdb.h"
#include "tools/command.h"
#include "tools/converted_parts.h"
#include "tools/labelled_source.h"
#include "tools/synthetic_data.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

/// The features of files that `sectionflow convert` and TensorFlow's users write. Sizes are there of pictures that are
/// no files of their own.
FeatureSchema picture_schema() {
  FeatureSchema schema = {
      {.name = "image/encoded", .dtype = Dtype::u8, .shape = {kDynamic}, .kind = FeatureKind::bytes},
      {.name = "image/class/label", .dtype = Dtype::i64, .shape = {}, .kind = FeatureKind::values}};
  for (const char* size : {"image/height", "image/width", "image/channels"}) {
    schema.push_back({.name = size, .dtype = Dtype::i64, .shape = {kDynamic}, .kind = FeatureKind::values});
  }
  return schema;
}

std::int64_t size_feature(const Example& record, const char* name, const std::string& where) {
  const HostTensor& tensor = record.at(name);
  SF_CHECK(tensor.num_elements() == 1, DataError, where, "'image/encoded' is neither a JPEG nor a PNG file, and '",
           name, "' does not tell its size");
  return tensor.item<std::int64_t>();
}

/// The picture of a record, u8 [H,W,C].
HostTensor picture_of(const Example& record, int channels, const std::string& where) {
  const HostTensor& encoded = record.at("image/encoded");
  const std::string_view bytes(reinterpret_cast<const char*>(encoded.bytes()), encoded.num_bytes());
  if (is_jpeg(bytes) || is_png(bytes)) return decode_image(bytes, {.channels = channels}, where);
  const std::int64_t height = size_feature(record, "image/height", where),
                     width = size_feature(record, "image/width", where),
                     depth = size_feature(record, "image/channels", where);
  constexpr std::int64_t kLongest = 1 << 20;
  SF_CHECK(height >= 1 && width >= 1 && depth >= 1 && height <= kLongest && width <= kLongest && depth <= 4 &&
               static_cast<std::size_t>(height * width * depth) == bytes.size(),
           DataError, where, "a picture [", height, ",", width, ",", depth, "] of ", bytes.size(), " bytes");
  HostTensor picture(Dtype::u8, {height, width, depth});
  std::memcpy(picture.bytes(), bytes.data(), bytes.size());
  return picture;
}

/// A picture with so many channels: a grey one has all of them alike.
HostTensor with_channels(HostTensor picture, std::int64_t channels) {
  const Shape& shape = picture.shape();
  if (shape[2] == channels) return picture;
  SF_CHECK(shape[2] == 1, DataError, "train: a picture has ", shape[2], " channels, the model takes ", channels,
           hint("take a model for pictures in colour"));
  HostTensor result(Dtype::u8, {shape[0], shape[1], channels});
  const auto from = std::as_const(picture).values<std::uint8_t>();
  const auto to = result.values<std::uint8_t>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i / static_cast<std::size_t>(channels)];
  return result;
}

void check_label(std::int64_t label, std::int64_t classes) {
  SF_CHECK(label >= 0 && label < classes, DataError, "train: an example has the class ", label,
           ", the model knows 0 to ", classes - 1, hint("add --classes N where the model has a choice"));
}

/// Examples {"image": u8 [H,W,C], "label": i32 []} as the model takes them.
Dataset for_model(const Dataset& examples, const ModelInputs& inputs, const ClassNames& names) {
  const Shape& shape = inputs.image.shape();
  const std::int64_t channels = shape[3], classes = inputs.classes;
  const auto check = [channels, classes](Example example) {
    check_label(example.at("label").item<std::int32_t>(), classes);
    Example checked;
    checked.emplace("image", with_channels(std::move(example.at("image")), channels));
    checked.emplace("label", std::move(example.at("label")));
    return checked;
  };
  // Under other names labels mean something else: a position knows the map by them.
  std::vector<std::string> known;
  for (const auto& [label, name] : names) known.push_back(text_of(label, ":", name));
  return examples.map({check, known.empty() ? "check" : "labels of " + identity_of_names(known)})
      .map(maps::resize({.height = shape[1], .width = shape[2]}))
      .map(maps::normalize());
}

/// Windows of a text by the names that the batches of all data have.
Dataset tokens_for_model(const Dataset& windows) {
  return windows.map(maps::rename({{"inputs", "image"}, {"targets", "label"}}));
}

/// Records as examples {"image", "label"}.
Dataset pictures_of_records(std::vector<fs::path> files, int channels) {
  const auto decode = [channels](Example record, const std::string& where) {
    const std::int64_t label = record.at("image/class/label").item<std::int64_t>();
    check_label(label, std::int64_t{1} << 31);
    Example example;
    example.emplace("image", picture_of(record, channels, where));
    example.emplace("label", HostTensor::scalar(static_cast<std::int32_t>(label)));
    return example;
  };
  return Dataset::from(tfrecord_source(std::move(files), picture_schema(), {}, decode));
}

/// A part of a data set: its files, or its source.
struct Part {
  std::string name;
  Dataset examples;
  ClassNames classes{};
};

/// Files of a folder by what stands before '-': train-00000.tfrecord.
std::vector<Part> parts_of_records(const fs::path& folder, int channels) {
  check_complete(folder);
  std::vector<fs::path> train, test, validation, whole, all = files_in(folder);
  for (const fs::path& file : all) {
    const std::string name = file.filename().string();
    if (name.starts_with("all-")) whole.push_back(file);
    if (name.starts_with("train-")) train.push_back(file);
    if (name.starts_with("test-")) test.push_back(file);
    if (name.starts_with("validation-")) validation.push_back(file);
  }
  const bool has_parts = !train.empty() || !test.empty() || !validation.empty();
  SF_CHECK(whole.empty() || !has_parts, DataError, "tfrecord: the folder '", folder.string(), "' has '",
           whole.empty() ? "" : whole.front().filename().string(), "', of a data set in one part, beside ",
           !train.empty()  ? "train-"
           : !test.empty() ? "test-"
                           : "validation-",
           "*.tfrecord, of another",
           hint("leave the files of one data set in the folder: sectionflow convert --overwrite replaces all"));
  SF_CHECK(!train.empty() || (test.empty() && validation.empty()), DataError, "tfrecord: '", folder.string(), "' has ",
           validation.empty() ? "test-*.tfrecord" : "validation-*.tfrecord", ", and no train-*.tfrecord to train on",
           hint("call the files that are to be trained on train-*.tfrecord"));
  if (!validation.empty()) test = std::move(validation);  // that for tests is left for the end
  const ClassNames classes = read_class_names(folder);
  if (train.empty()) return {{"all", pictures_of_records(std::move(all), channels), classes}};
  std::vector<Part> parts = {{"train", pictures_of_records(std::move(train), channels), classes}};
  if (!test.empty()) parts.push_back({"test", pictures_of_records(std::move(test), channels), classes});
  return parts;
}

/// The pictures of a database, with what its records tell of them.
Dataset pictures_of_database(const fs::path& path, int channels) {
  const std::shared_ptr<const StreamSource> source = lmdb_source(path, {.image = {.channels = channels}});
  const auto check = [name = source->name()](Example example) {
    SF_CHECK(example.at("image").dtype() == Dtype::u8, DataError, name, ": a record has ",
             example.at("image").type().text(), "; wanted a picture of bytes, whose levels are 0 to 255");
    return example;
  };
  return Dataset::from(source).map({check, "pictures of bytes"});
}

bool is_database(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "data.mdb", ignored);
}

/// A database by itself, or a folder with one for each part.
std::vector<Part> parts_of_databases(const fs::path& folder, int channels) {
  check_complete(folder);
  const auto part = [&](const char* name, const fs::path& path) {
    return Part{name, pictures_of_database(path, channels), read_class_names(path)};
  };
  if (!is_database(folder / "train")) return {part("all", folder)};
  SF_CHECK(!is_database(folder), DataError, "lmdb: the folder '", folder.string(),
           "' has 'data.mdb', a data set in one part, beside 'train/data.mdb', of another",
           hint("leave the databases of one data set in the folder"));
  std::vector<Part> parts = {part("train", folder / "train")};
  const char* const other = is_database(folder / "validation") ? "validation" : "test";
  if (!is_database(folder / other)) return parts;
  parts.push_back(part("test", folder / other));
  const bool are_named = !parts.front().classes.empty() && !parts.back().classes.empty();
  SF_CHECK(!are_named || parts.front().classes == parts.back().classes, DataError, "lmdb: 'train' and '", other,
           "' of '", folder.string(),
           "' have other names for their classes, so that a number would mean another in each",
           hint("make both from the same classes, as sectionflow convert does of one folder"));
  return parts;
}

/// The file itself, or those of a folder by their names.
std::vector<fs::path> texts_of(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) return {path};
  std::vector<fs::path> files;
  for (auto entry = fs::directory_iterator(path, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    std::error_code ignored;
    const bool is_hidden = entry->path().filename().string().starts_with('.');
    if (!is_hidden && entry->is_regular_file(ignored)) files.push_back(entry->path());
  }
  SF_CHECK(!failed, DataError, "text: the folder '", path.string(), "' cannot be read (", failed.message(), ")");
  SF_CHECK(!files.empty(), DataError, "text: the folder '", path.string(), "' has no files",
           hint("folders in it are not looked into"));
  std::sort(files.begin(), files.end());
  return files;
}

/// Kinds of data that are read from their start.
bool is_streamed(const DataArgument& data) {
  return data.kind == "tfrecord" || data.kind == "lmdb";
}

std::vector<Part> parts_of(const DataArgument& data, const ModelInputs& inputs) {
  const Shape& input = inputs.image.shape();
  if (data.kind == "text") {
    SF_CHECK(!data.path.empty(), ArgumentError, "text lies in a file or folder; got none", hint("write text:PATH"));
    return {{"all", Dataset::from(text_source(texts_of(data.path), Vocabulary::of_bytes(), {.window = input[1]}))}};
  }
  const int channels = input[3] == 1 ? 1 : 3;
  if (is_streamed(data)) {
    SF_CHECK(!data.path.empty(), ArgumentError, data.kind, " lies in a folder; got none",
             hint("write ", data.kind, ":FOLDER"));
    return data.kind == "lmdb" ? parts_of_databases(data.path, channels) : parts_of_records(data.path, channels);
  }
  std::vector<Part> parts;
  for (const LabelledPart& part : labelled_parts(data, channels)) {
    if (parts.size() == 2) break;  // what is for tests, beside what is for validation, is left for the end
    parts.push_back({part.name == "validation" ? "test" : part.name, Dataset::from(part.source), part.classes});
  }
  return parts;
}

/// What is trained on and what is evaluated, of the parts that there are.
std::vector<Part> with_validation(std::vector<Part> parts, const TrainingDataArguments& arguments,
                                  const DataArgument& data) {
  if (arguments.validation.empty()) return parts;
  const double share = share_named(arguments.validation);
  SF_CHECK(!is_streamed(data), ArgumentError,
           "--validation: records are read from their start, and no share of them can be kept apart",
           hint("give them a part of their own, ",
                data.kind == "lmdb" ? "a database 'test' or 'validation'" : "test-*.tfrecord or validation-*.tfrecord",
                ": sectionflow convert --validation ", arguments.validation));
  SplitDataset split = parts.front().examples.split({.validation = share, .seed = arguments.seed});
  return {{"train", std::move(split.train), parts.front().classes},
          {"test", std::move(split.validation), parts.front().classes}};
}

/// A model that is fed something else than such data are is refused.
void check_inputs(const DataArgument& data, const ModelInputs& inputs, const std::string& option) {
  const auto& [image, label, classes] = inputs;
  const bool are_pictures = image.dtype() == Dtype::f32 && image.shape().rank() == 4 && label.shape().rank() == 1;
  const bool are_tokens = image.dtype() == Dtype::i32 && image.shape().rank() == 2 && label.shape().rank() == 2;
  const bool is_text = data.kind == "text";
  SF_CHECK(
      is_text ? are_tokens : are_pictures, ArgumentError, option, " ", data.kind, ": the model takes ",
      image.type().text(), " and ", label.type().text(), is_text ? ", no tokens" : ", no pictures with a class each",
      hint(option, are_tokens ? " text:PATH has tokens; synthetic fits every model" : " synthetic fits every model"));
  const std::int64_t bytes = Vocabulary::of_bytes().size();
  SF_CHECK(!is_text || classes >= bytes, ArgumentError, option, " text: each of the ", bytes,
           " values of a byte is a token, the model knows ", classes, hint("add --vocabulary ", bytes));
}

/// A model that does not know the last class of the data is found out before it is trained.
void check_classes(const ClassNames& classes, const ModelInputs& inputs, const std::string& option) {
  if (classes.empty()) return;
  const auto& [label, name] = *classes.rbegin();
  SF_CHECK(label < inputs.classes, ArgumentError, option, " has the class ", label, ", '", name,
           "', the model knows 0 to ", inputs.classes - 1, hint("add --classes ", label + 1));
}

DatasetStatistics statistics_of(const BatchSource* source) {
  const auto* const batches = dynamic_cast<const DatasetBatches*>(source);
  return batches == nullptr ? DatasetStatistics() : batches->statistics();
}

}  // namespace

std::vector<std::string> training_data_kinds() {
  std::vector<std::string> kinds = labelled_kinds();
  kinds.insert(kinds.end(), {"tfrecord", "lmdb", "text", "synthetic"});
  return kinds;
}

const std::vector<std::string>& error_policies() {
  static const std::vector<std::string> names = {"fail", "skip_record", "skip_file"};
  return names;
}

ErrorPolicy error_policy_named(const std::string& name) {
  check_known(name, error_policies(), "--on-error: '" + name + "' is no policy");
  return name == "fail" ? ErrorPolicy::fail : name == "skip_file" ? ErrorPolicy::skip_file : ErrorPolicy::skip_record;
}

DatasetStatistics TrainingData::train_statistics() const {
  return statistics_of(train.get());
}

DatasetStatistics TrainingData::validation_statistics() const {
  return statistics_of(validation.get());
}

TrainingData training_data(const TrainingDataArguments& arguments, const ModelInputs& inputs, const ZooModel& model) {
  const ErrorPolicy policy = error_policy_named(arguments.on_error);
  const DataArgument data = data_argument(arguments.data, training_data_kinds(), arguments.option);
  if (data.kind == "synthetic") {
    SF_CHECK(data.path.empty(), ArgumentError, arguments.option, " ", arguments.data, ": synthetic data lie nowhere",
             hint("write ", arguments.option, " synthetic"));
    SF_CHECK(arguments.validation.empty(), ArgumentError, "--validation: synthetic data have a part for it already");
    return {
        .train = synthetic_batches(
            model, {.batch = arguments.batch, .seed = arguments.seed, .batches = arguments.synthetic_batches}),
        .validation = synthetic_batches(model, {.batch = arguments.batch, .seed = arguments.seed + 1, .batches = 4})};
  }
  check_inputs(data, inputs, arguments.option);
  TrainingData result;
  for (const Part& part : with_validation(parts_of(data, inputs), arguments, data)) {
    check_classes(part.classes, inputs, arguments.option);
    if (result.classes.empty()) result.classes = part.classes;
    const bool trains = part.name != "test";
    // A training that has failed at a damaged record may go on without it: nothing was left out so far.
    const Dataset readable = policy == ErrorPolicy::fail ? part.examples : part.examples.on_error(policy);
    // Pixels that wait are fewer before they become floats.
    const Dataset ordered = trains ? readable.shuffle({.seed = arguments.seed}) : readable;
    const Dataset fed = data.kind == "text" ? tokens_for_model(ordered) : for_model(ordered, inputs, part.classes);
    (trains ? result.train : result.validation) =
        std::make_unique<DatasetBatches>(fed.batch({.size = arguments.batch}).prefetch());
  }
  return result;
}

}  // namespace sectionflow
