#include "sources/hdf5.h"

#include "sources/missing_library.h"

#ifdef SF_HAS_HDF5C
#include <hdf5.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/whole_file.h"
#endif

namespace sectionflow {

#ifdef SF_HAS_HDF5C
namespace {

/// The library as one call uses it: alone, silent, without plugins and links to other files. What the program has set
/// is put back afterwards.
class Hdf5Turn {
 public:
  Hdf5Turn() : lock_(mutex()) {
    H5open();
    H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    H5PLget_loading_state(&plugins_);
    H5PLset_loading_state(0);
  }
  Hdf5Turn(const Hdf5Turn&) = delete;
  Hdf5Turn& operator=(const Hdf5Turn&) = delete;
  ~Hdf5Turn() {
    H5PLset_loading_state(plugins_);
    H5Eset_auto2(H5E_DEFAULT, print_, print_data_);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  std::lock_guard<std::mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
  unsigned plugins_ = 0;
};

/// What the library says of its last error.
std::string hdf5_reason() {
  std::string text;
  const auto take = [](unsigned, const H5E_error2_t* error, void* to) -> herr_t {
    if (error->desc != nullptr) *static_cast<std::string*>(to) = std::string(error->desc).substr(0, 200);
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, take, &text);
  return text.empty() ? "no reason is given" : text;
}

template <class... Parts>
void want_hdf5(bool condition, const Parts&... parts) {
  if (!condition) throw DataError(error_text_of(parts..., " (", hdf5_reason(), ")"));
}

}  // namespace

/// Something of the library's. Owns: it; to be given back in a turn. Hdf5Writer has some, so that it has a name
/// outside.
class Hdf5Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Hdf5Handle() {
    if (id_ >= 0) close_(id_);
  }
  hid_t get() const { return id_; }
  bool is_there() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

namespace {

/// The library's type of our elements in memory; below 0 for those that it does not get.
hid_t memory_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return H5T_NATIVE_FLOAT;
    case Dtype::f64:
      return H5T_NATIVE_DOUBLE;
    case Dtype::i32:
      return H5T_NATIVE_INT32;
    case Dtype::i64:
      return H5T_NATIVE_INT64;
    case Dtype::u8:
      return H5T_NATIVE_UINT8;
    default:
      return -1;
  }
}

Dtype dtype_of_dataset(hid_t dataset, const std::string& where) {
  const Hdf5Handle type(H5Dget_type(dataset), H5Tclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  const std::size_t bytes = H5Tget_size(type.get());
  if (kind == H5T_FLOAT && bytes == 4) return Dtype::f32;
  if (kind == H5T_FLOAT && bytes == 8) return Dtype::f64;
  const bool is_signed = kind == H5T_INTEGER && H5Tget_sign(type.get()) == H5T_SGN_2;
  if (is_signed && bytes == 4) return Dtype::i32;
  if (is_signed && bytes == 8) return Dtype::i64;
  if (kind == H5T_INTEGER && !is_signed && bytes == 1) return Dtype::u8;
  throw DataError(
      error_text_of(where, "has elements of ", bytes, " bytes that are not read; wanted f32, f64, i32, i64 or u8"));
}

herr_t refuse_link(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) {
  return -1;
}

struct OpenDataset {
  Hdf5Handle id;
  TensorType type;
  std::string where;
};

OpenDataset open_dataset(hid_t file, const std::string& file_where, const std::string& name) {
  OpenDataset dataset;
  dataset.where = text_of(file_where, "dataset '", name, "': ");
  const Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  H5Pset_elink_cb(access.get(), refuse_link, nullptr);
  SF_CHECK(!name.empty() && name.find('\0') == std::string::npos, DataError, dataset.where, "this is no name");
  dataset.id = Hdf5Handle(H5Dopen2(file, name.c_str(), access.get()), H5Dclose);
  want_hdf5(dataset.id.is_there(), dataset.where, "cannot be opened");
  const Hdf5Handle made(H5Dget_create_plist(dataset.id.get()), H5Pclose);
  SF_CHECK(H5Pget_external_count(made.get()) == 0 && H5Pget_layout(made.get()) != H5D_VIRTUAL, DataError, dataset.where,
           "its bytes are in other files, which are not read");
  const Hdf5Handle space(H5Dget_space(dataset.id.get()), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  SF_CHECK(rank >= 0 && rank <= Shape::kMaxRank && H5Sget_simple_extent_type(space.get()) != H5S_NULL, DataError,
           dataset.where, "has ", rank, " dimensions, or no elements at all; at most ", Shape::kMaxRank);
  std::vector<hsize_t> extent(static_cast<std::size_t>(rank) + 1);
  H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr);
  std::vector<std::int64_t> dims;
  for (int axis = 0; axis < rank; ++axis) {
    const hsize_t dim = extent[static_cast<std::size_t>(axis)];
    SF_CHECK(dim <= hsize_t{1} << 62, DataError, dataset.where, "has a dimension of ", dim);
    dims.push_back(static_cast<std::int64_t>(dim));
  }
  dataset.type = {dtype_of_dataset(dataset.id.get(), dataset.where), Shape(std::move(dims))};
  try {
    dataset.type.bytes();
  } catch (const ShapeError&) {
    throw DataError(text_of(dataset.where, "is ", dataset.type.text(), ", whose size does not fit 64 bits"));
  }
  return dataset;
}

Hdf5Handle open_hdf5(const std::filesystem::path& path, const std::string& where) {
  Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  want_hdf5(file.is_there(), where, "cannot be opened");
  return file;
}

class Hdf5Rows final : public IndexedSource {
 public:
  Hdf5Rows(const std::filesystem::path& path, const std::map<std::string, std::string>& datasets)
      : name_("HDF5 '" + path.string() + "'") {
    const Hdf5Turn turn;
    // What fails from here on is given back in this turn.
    std::map<std::string, OpenDataset> opened;
    const std::string where = "HDF5 file '" + path.string() + "': ";
    Hdf5Handle file = open_hdf5(path, where);
    for (const auto& [key, name] : datasets) {
      OpenDataset dataset = open_dataset(file.get(), where, name);
      const Shape& shape = dataset.type.shape;
      SF_CHECK(shape.rank() > 0, DataError, dataset.where, "holds one number; wanted rows along a first axis");
      SF_CHECK(opened.empty() || shape[0] == size_, DataError, dataset.where, "has ", shape[0],
               " rows, the others have ", size_);
      size_ = shape[0];
      opened.emplace(key, std::move(dataset));
    }
    file_ = std::move(file);
    datasets_ = std::move(opened);
  }
  Hdf5Rows(const Hdf5Rows&) = delete;
  Hdf5Rows& operator=(const Hdf5Rows&) = delete;
  ~Hdf5Rows() override {
    const Hdf5Turn turn;
    datasets_.clear();
    file_ = Hdf5Handle();
  }

  std::string name() const override { return name_; }
  std::int64_t size() const override { return size_; }
  Example at(std::int64_t index) const override {
    SF_CHECK(index >= 0 && index < size_, ArgumentError, name_, ": example ", index, " of ", size_, " was asked for");
    const Hdf5Turn turn;
    Example example;
    for (const auto& [key, dataset] : datasets_) {
      const auto& dims = dataset.type.shape.dims();
      HostTensor row(dataset.type.dtype, Shape(std::vector<std::int64_t>(dims.begin() + 1, dims.end())));
      std::vector<hsize_t> start(dims.size(), 0), count(dims.begin(), dims.end());
      start[0] = static_cast<hsize_t>(index);
      count[0] = 1;
      const Hdf5Handle from(H5Dget_space(dataset.id.get()), H5Sclose);
      const Hdf5Handle to(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose);
      if (row.num_bytes() > 0) {
        const bool read =
            H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) >= 0 &&
            H5Dread(dataset.id.get(), memory_type(row.dtype()), to.get(), from.get(), H5P_DEFAULT, row.bytes()) >= 0;
        want_hdf5(read, dataset.where, "row ", index, " cannot be read");
      }
      example.emplace_hint(example.end(), key, std::move(row));
    }
    return example;
  }

 private:
  std::string name_;
  Hdf5Handle file_;
  std::map<std::string, OpenDataset> datasets_;
  std::int64_t size_ = 0;
};

}  // namespace

HostTensor read_hdf5(const std::filesystem::path& path, const std::string& dataset, std::size_t max_bytes) {
  check_path(path, "read_hdf5");
  const Hdf5Turn turn;
  const std::string where = "HDF5 file '" + path.string() + "': ";
  const Hdf5Handle file = open_hdf5(path, where);
  const OpenDataset opened = open_dataset(file.get(), where, dataset);
  SF_CHECK(opened.type.bytes() <= max_bytes, DataError, opened.where, "is ", opened.type.text(), "; at most ",
           bytes_text(max_bytes), " are read",
           hint("raise max_bytes if the file is right, or read rows by hdf5_source"));
  HostTensor tensor(opened.type);
  if (tensor.num_bytes() > 0) {
    want_hdf5(H5Dread(opened.id.get(), memory_type(tensor.dtype()), H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.bytes()) >= 0,
              opened.where, "cannot be read");
  }
  return tensor;
}

std::shared_ptr<const IndexedSource> hdf5_source(const std::filesystem::path& path,
                                                 const std::map<std::string, std::string>& datasets) {
  check_path(path, "hdf5_source");
  SF_CHECK(!datasets.empty(), ArgumentError, "hdf5_source: no datasets; wanted one at least");
  return std::make_shared<Hdf5Rows>(path, datasets);
}

struct Hdf5Writer::State {
  struct Written {
    Hdf5Handle id;
    TensorType type;
  };
  std::filesystem::path path;
  std::string where;
  Hdf5Handle file;
  std::map<std::string, Written> datasets;

  Written& dataset(const std::string& name, const HostTensor& rows);
};

/// The dataset of that name, which the first rows make.
Hdf5Writer::State::Written& Hdf5Writer::State::dataset(const std::string& name, const HostTensor& rows) {
  const auto found = datasets.find(name);
  if (found != datasets.end()) return found->second;
  const auto& dims = rows.shape().dims();
  std::vector<hsize_t> none(dims.begin(), dims.end()), most = none, chunk = none;
  none[0] = 0;
  most[0] = H5S_UNLIMITED;
  std::size_t row_bytes = dtype_bytes(rows.dtype());
  for (std::size_t axis = 1; axis < dims.size(); ++axis) row_bytes *= static_cast<std::size_t>(dims[axis]);
  // Pieces of about 1 MiB, which are read at once.
  chunk[0] = std::clamp<hsize_t>(1_MiB / std::max<std::size_t>(row_bytes, 1), 1, 4096);
  for (hsize_t& dim : chunk) dim = std::max<hsize_t>(dim, 1);
  const Hdf5Handle space(H5Screate_simple(static_cast<int>(dims.size()), none.data(), most.data()), H5Sclose);
  const Hdf5Handle how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  want_hdf5(H5Pset_chunk(how.get(), static_cast<int>(dims.size()), chunk.data()) >= 0, where, "dataset '", name,
            "' cannot be made");
  Written written{Hdf5Handle(H5Dcreate2(file.get(), name.c_str(), memory_type(rows.dtype()), space.get(), H5P_DEFAULT,
                                        how.get(), H5P_DEFAULT),
                             H5Dclose),
                  rows.type()};
  want_hdf5(written.id.is_there(), where, "dataset '", name, "' cannot be made");
  std::vector<std::int64_t> nothing = dims;
  nothing[0] = 0;
  written.type.shape = Shape(std::move(nothing));
  return datasets.emplace(name, std::move(written)).first->second;
}

Hdf5Writer::Hdf5Writer(std::filesystem::path path) : state_(std::make_unique<State>()) {
  check_writable(path, "Hdf5Writer");
  state_->where = "Hdf5Writer: '" + path.string() + "': ";
  state_->path = std::move(path);
  const Hdf5Turn turn;
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  // In memory alone: the file is then written as all files are.
  H5Pset_fapl_core(access.get(), 1_MiB, 0);
  state_->file = Hdf5Handle(H5Fcreate(state_->path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose);
  want_hdf5(state_->file.is_there(), state_->where, "cannot be begun");
}

Hdf5Writer::~Hdf5Writer() {
  const Hdf5Turn turn;
  state_.reset();
}

void Hdf5Writer::append(const std::string& dataset, const HostTensor& rows) {
  const std::string where = text_of(state_->where, "dataset '", dataset, "': ");
  SF_CHECK(!dataset.empty() && dataset != "." && dataset.find('/') == std::string::npos &&
               dataset.find('\0') == std::string::npos,
           ArgumentError, where, "this is no name of a dataset; wanted one without '/'");
  SF_CHECK(rows.shape().rank() > 0, ShapeError, where, "got ", rows.type().text(), "; wanted rows along a first axis");
  SF_CHECK(memory_type(rows.dtype()) >= 0, ArgumentError, where, "got ", rows.type().text(),
           "; wanted f32, f64, i32, i64 or u8");
  const Hdf5Turn turn;
  State::Written& written = state_->dataset(dataset, rows);
  std::vector<std::int64_t> dims = written.type.shape.dims();
  const std::int64_t before = dims[0];
  dims[0] = rows.shape()[0];
  SF_CHECK(rows.dtype() == written.type.dtype && rows.shape().dims() == dims, ShapeError, where, "has rows like ",
           written.type.text(), " and got ", rows.type().text());
  std::vector<hsize_t> start(dims.size(), 0), count(dims.begin(), dims.end()), extent = count;
  start[0] = static_cast<hsize_t>(before);
  extent[0] += start[0];
  want_hdf5(H5Dset_extent(written.id.get(), extent.data()) >= 0, where, "cannot grow");
  dims[0] = static_cast<std::int64_t>(extent[0]);
  written.type.shape = Shape(std::move(dims));
  if (rows.num_bytes() == 0) return;
  const Hdf5Handle from(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose);
  const Hdf5Handle to(H5Dget_space(written.id.get()), H5Sclose);
  const bool is_written =
      H5Sselect_hyperslab(to.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) >= 0 &&
      H5Dwrite(written.id.get(), memory_type(rows.dtype()), from.get(), to.get(), H5P_DEFAULT, rows.bytes()) >= 0;
  want_hdf5(is_written, where, "its rows cannot be written");
}

void Hdf5Writer::finish() {
  std::string bytes;
  {
    const Hdf5Turn turn;
    want_hdf5(H5Fflush(state_->file.get(), H5F_SCOPE_LOCAL) >= 0, state_->where, "cannot be completed");
    const ssize_t num_bytes = H5Fget_file_image(state_->file.get(), nullptr, 0);
    want_hdf5(num_bytes > 0, state_->where, "cannot be completed");
    bytes.resize(static_cast<std::size_t>(num_bytes));
    want_hdf5(H5Fget_file_image(state_->file.get(), bytes.data(), bytes.size()) == num_bytes, state_->where,
              "cannot be completed");
  }
  write_whole_file(state_->path, bytes, "Hdf5Writer");
}
#else
HostTensor read_hdf5(const std::filesystem::path&, const std::string&, std::size_t) {
  missing_library("read_hdf5", "the HDF5 library", "libhdf5-dev");
}
std::shared_ptr<const IndexedSource> hdf5_source(const std::filesystem::path&,
                                                 const std::map<std::string, std::string>&) {
  missing_library("hdf5_source", "the HDF5 library", "libhdf5-dev");
}
struct Hdf5Writer::State {};
Hdf5Writer::Hdf5Writer(std::filesystem::path) {
  missing_library("Hdf5Writer", "the HDF5 library", "libhdf5-dev");
}
Hdf5Writer::~Hdf5Writer() = default;
void Hdf5Writer::append(const std::string&, const HostTensor&) {}
void Hdf5Writer::finish() {}
#endif

}  // namespace sectionflow
