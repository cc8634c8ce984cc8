#include "data/rows.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "data/idx.h"
#include "data/source_identity.h"

namespace sectionflow {
namespace {

class Rows final : public IndexedSource {
 public:
  Rows(std::string name, std::string identity, Example tensors)
      : name_(std::move(name)),
        identity_(std::move(identity)),
        tensors_(std::move(tensors)),
        size_(tensors_.begin()->second.shape()[0]) {
    for (const auto& [key, tensor] : tensors_) {
      const auto& dims = tensor.shape().dims();
      types_.emplace(key, TensorType{tensor.dtype(), Shape(std::vector<std::int64_t>(dims.begin() + 1, dims.end()))});
    }
  }
  std::string name() const override { return name_; }
  std::string identity() const override { return identity_; }
  std::int64_t size() const override { return size_; }
  Example at(std::int64_t index) const override {
    SF_CHECK(index >= 0 && index < size_, ArgumentError, name_, ": example ", index, " of ", size_, " was asked for");
    Example example;
    for (const auto& [key, tensor] : tensors_) {
      HostTensor row(types_.at(key));
      if (row.num_bytes() > 0)
        std::memcpy(row.bytes(), tensor.bytes() + static_cast<std::size_t>(index) * row.num_bytes(), row.num_bytes());
      example.emplace_hint(example.end(), key, std::move(row));
    }
    return example;
  }

 private:
  std::string name_, identity_;
  Example tensors_;
  std::int64_t size_;
  std::map<std::string, TensorType> types_;
};

/// "'image' u8[60000,28,28], 'label' u8[10000]"
std::string types_text(const Example& tensors) {
  std::string text;
  for (const auto& [key, tensor] : tensors)
    text += text_of(text.empty() ? "" : ", ", "'", key, "' ", tensor.type().text());
  return text;
}

}  // namespace

std::shared_ptr<const IndexedSource> rows_of(std::string name, Example tensors) {
  SF_CHECK(!tensors.empty(), ArgumentError, name, ": no tensors; wanted one at least");
  for (const auto& [key, tensor] : tensors) {
    SF_CHECK(tensor.shape().rank() > 0, ShapeError, name, ": '", key, "' is a scalar ", tensor.type().text(),
             "; wanted examples along a first axis");
    SF_CHECK(tensor.shape()[0] == tensors.begin()->second.shape()[0], ShapeError, name,
             ": the tensors are of different lengths: ", types_text(tensors));
  }
  return std::make_shared<Rows>(name, name, std::move(tensors));
}

std::shared_ptr<const IndexedSource> idx_source(const std::map<std::string, std::filesystem::path>& files) {
  SF_CHECK(!files.empty(), ArgumentError, "idx_source: no files; wanted one at least");
  Example tensors;
  std::string name = "IDX";
  std::vector<std::filesystem::path> paths;
  for (const auto& [key, path] : files) {
    HostTensor tensor = read_idx(path);
    SF_CHECK(tensor.shape().rank() > 0, DataError, "idx_source: '", path.string(), "' holds one number ",
             tensor.type().text(), "; wanted examples along a first axis");
    tensors.emplace(key, std::move(tensor));
    paths.push_back(path);
    name += text_of(name == "IDX" ? " '" : ", '", path.string(), "'");
  }
  for (const auto& [key, tensor] : tensors) {
    SF_CHECK(tensor.shape()[0] == tensors.begin()->second.shape()[0], DataError, "idx_source: ", name,
             " are of different lengths: ", types_text(tensors), hint("are they files of one data set?"));
  }
  return std::make_shared<Rows>(std::move(name), "IDX " + identity_of_files(paths), std::move(tensors));
}

}  // namespace sectionflow
