#include "sources/hdf5.h"

#include "sources/missing_library.h"

#ifdef SF_HAS_HDF5C
#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/whole_file.h"
#include "data/source_identity.h"
#include "sources/hdf5_library.h"
#endif

namespace sectionflow {

#ifdef SF_HAS_HDF5C
namespace {

Dtype dtype_of_dataset(hid_t dataset, const std::string& where) {
  const Hdf5Handle type(H5Dget_type(dataset), H5Tclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  const std::size_t bytes = H5Tget_size(type.get());
  if (kind == H5T_FLOAT && bytes == 4) return Dtype::f32;
  if (kind == H5T_FLOAT && bytes == 8) return Dtype::f64;
  const bool is_signed = kind == H5T_INTEGER && H5Tget_sign(type.get()) == H5T_SGN_2;
  if (is_signed && bytes == 4) return Dtype::i32;
  if (is_signed && bytes == 8) return Dtype::i64;
  if (is_signed && bytes == 1) return Dtype::i8;
  if (kind == H5T_INTEGER && !is_signed && bytes == 1) return Dtype::u8;
  throw DataError(
      error_text_of(where, "has elements of ", bytes, " bytes that are not read; wanted f32, f64, i32, i64, i8 or u8"));
}

herr_t refuse_link(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) {
  return -1;
}

struct OpenDataset {
  Hdf5Handle id;
  TensorType type;
  std::string where;
};

/// How datasets are opened: without what lies in other files.
Hdf5Handle dataset_access() {
  Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  H5Pset_elink_cb(access.get(), refuse_link, nullptr);
  return access;
}

OpenDataset open_dataset(hid_t file, const std::string& file_where, const std::string& name) {
  OpenDataset dataset;
  dataset.where = text_of(file_where, "dataset '", name, "': ");
  const Hdf5Handle access = dataset_access();
  SF_CHECK(!name.empty() && name.find('\0') == std::string::npos, DataError, dataset.where, "this is no name");
  dataset.id = Hdf5Handle(H5Dopen2(file, name.c_str(), access.get()), H5Dclose);
  if (!dataset.id.is_there()) throw_unopened_dataset(file, file_where, name);
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

constexpr std::size_t kMostBytes = std::numeric_limits<std::size_t>::max();

/// What chunks of a dataset take, and how many there are; nothing of one that is stored in one piece.
struct Chunks {
  std::size_t bytes = 0;  // of one
  std::size_t count = 0;
  bool are_filtered = false;
};

Chunks chunks_of(const OpenDataset& dataset) {
  const Hdf5Handle made(H5Dget_create_plist(dataset.id.get()), H5Pclose);
  const auto& dims = dataset.type.shape.dims();
  std::vector<hsize_t> sides(dims.size());
  if (H5Pget_layout(made.get()) != H5D_CHUNKED) return {};
  if (H5Pget_chunk(made.get(), static_cast<int>(sides.size()), sides.data()) != static_cast<int>(sides.size()))
    return {};
  Chunks chunks{.bytes = dtype_bytes(dataset.type.dtype), .count = 1, .are_filtered = H5Pget_nfilters(made.get()) > 0};
  for (std::size_t axis = 0; axis < sides.size(); ++axis) {
    const std::size_t side = std::max<std::size_t>(sides[axis], 1), dim = static_cast<std::size_t>(dims[axis]);
    const std::size_t along = dim / side + (dim % side == 0 ? 0 : 1);
    // A file may say anything.
    if (__builtin_mul_overflow(chunks.bytes, side, &chunks.bytes)) chunks.bytes = kMostBytes;
    if (__builtin_mul_overflow(chunks.count, along, &chunks.count)) chunks.count = kMostBytes;
  }
  return chunks;
}

/// The same dataset, which keeps chunks of `share` bytes at most.
void keep_chunks(hid_t file, const std::string& name, const Chunks& chunks, std::size_t share, OpenDataset& dataset) {
  const bool all_fit = chunks.bytes == 0 || chunks.count <= share / chunks.bytes;
  const std::size_t kept = all_fit ? chunks.count * chunks.bytes : chunks.are_filtered ? share : 0;
  // The library finds a chunk by its number modulo that of the slots: two chunks in one slot push each other out.
  constexpr std::size_t kMostSlots = 1'000'003;
  const std::size_t slots = 10 * std::min(kMostSlots / 10, chunks.count) + 1;
  const Hdf5Handle access = dataset_access();
  H5Pset_chunk_cache(access.get(), slots, kept, H5D_CHUNK_CACHE_W0_DEFAULT);
  dataset.id = Hdf5Handle();  // a dataset that is open already would keep its cache
  dataset.id = Hdf5Handle(H5Dopen2(file, name.c_str(), access.get()), H5Dclose);
  want_hdf5(dataset.id.is_there(), dataset.where, "cannot be opened");
}

class Hdf5Rows final : public IndexedSource {
 public:
  Hdf5Rows(const std::filesystem::path& path, const std::map<std::string, std::string>& datasets,
           const Hdf5SourceOptions& options)
      : name_("HDF5 '" + path.string() + "'"), identity_("HDF5 " + identity_of_files({path})) {
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
      // Of no rows the size of one may be any number.
      SF_CHECK(shape[0] == 0 || dataset.type.bytes() / static_cast<std::size_t>(shape[0]) <= options.max_row_bytes,
               DataError, dataset.where, "is ", dataset.type.text(), "; rows have at most ",
               bytes_text(options.max_row_bytes), hint("raise Hdf5SourceOptions::max_row_bytes if the file is right"));
      size_ = shape[0];
      opened.emplace(key, std::move(dataset));
    }
    double all_bytes = 0;
    for (const auto& [key, dataset] : opened) all_bytes += static_cast<double>(dataset.type.bytes());
    const double cache_bytes = static_cast<double>(std::min(options.cache_bytes, kMostBytes / 2));
    for (auto& [key, dataset] : opened) {
      const Chunks chunks = chunks_of(dataset);
      if (chunks.count == 0) continue;
      // Of one that is compressed each row takes as much memory as its chunk.
      SF_CHECK(!chunks.are_filtered || chunks.bytes <= options.max_chunk_bytes, DataError, dataset.where,
               "is compressed in chunks of ", bytes_text(chunks.bytes), "; wanted at most ",
               bytes_text(options.max_chunk_bytes),
               hint("raise Hdf5SourceOptions::max_chunk_bytes if the file is right"));
      const double part = static_cast<double>(dataset.type.bytes()) / std::max(all_bytes, 1.0);
      keep_chunks(file.get(), datasets.at(key), chunks, static_cast<std::size_t>(part * cache_bytes), dataset);
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
  std::string identity() const override { return identity_; }
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
  std::string name_, identity_;
  Hdf5Handle file_;
  std::map<std::string, OpenDataset> datasets_;
  std::int64_t size_ = 0;
};

}  // namespace

std::vector<Hdf5Dataset> list_hdf5(const std::filesystem::path& path) {
  check_path(path, "list_hdf5");
  const Hdf5Turn turn;
  const std::string where = "HDF5 file '" + path.string() + "': ";
  const Hdf5Handle file = open_hdf5(path, where);
  std::vector<Hdf5Dataset> found;
  for (const std::string& name : hdf5_names(file.get(), where)) {
    const Hdf5Handle object(H5Oopen(file.get(), name.c_str(), H5P_DEFAULT), H5Oclose);
    if (object.is_there() && H5Iget_type(object.get()) != H5I_DATASET) continue;
    Hdf5Dataset dataset{.name = "/" + name};
    try {
      dataset.type = open_dataset(file.get(), where, dataset.name).type;
    } catch (const DataError& error) {
      dataset.problem = error.message();
    }
    found.push_back(std::move(dataset));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

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
                                                 const std::map<std::string, std::string>& datasets,
                                                 const Hdf5SourceOptions& options) {
  check_path(path, "hdf5_source");
  SF_CHECK(!datasets.empty(), ArgumentError, "hdf5_source: no datasets; wanted one at least");
  return std::make_shared<Hdf5Rows>(path, datasets, options);
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
           "; wanted f32, f64, i32, i64, i8 or u8");
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
std::vector<Hdf5Dataset> list_hdf5(const std::filesystem::path&) {
  missing_library("list_hdf5", "the HDF5 library", "libhdf5-dev");
}
std::shared_ptr<const IndexedSource> hdf5_source(const std::filesystem::path&,
                                                 const std::map<std::string, std::string>&, const Hdf5SourceOptions&) {
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
