#include "data/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/bytes.h"
#include "base/checked_arithmetic.h"
#include "data/file_at.h"
#include "data/npy_header.h"
#include "data/source_identity.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "elements go to files as they lie");

/// The header of a file of so many bytes, whose first are `head`, when its elements are all there and no more.
NpyHeader checked_header(std::string_view head, std::uint64_t file_bytes, const std::string& where) {
  const NpyHeader header = parse_npy_header(head, where);
  std::size_t wanted = 0;
  try {
    wanted = header.type.bytes();
  } catch (const ShapeError&) {
    throw DataError(text_of(where, "declares ", header.type.text(), ", whose size does not fit 64 bits"));
  }
  SF_CHECK(file_bytes - header.num_bytes == wanted, DataError, where, "declares ", header.type.text(), " of ", wanted,
           " bytes, but has ", file_bytes - header.num_bytes, " behind its header", hint("is it complete?"));
  return header;
}

void reverse_each(std::byte* bytes, std::size_t num_bytes, std::size_t each) {
  for (std::size_t i = 0; each > 1 && i < num_bytes; i += each) std::reverse(bytes + i, bytes + i + each);
}

void check_booleans(const std::byte* bytes, const TensorType& type, std::size_t num_bytes, const std::string& where) {
  if (type.dtype != Dtype::boolean) return;
  SF_CHECK(std::all_of(bytes, bytes + num_bytes, [](std::byte b) { return b <= std::byte{1}; }), DataError, where,
           "has a boolean other than 0 and 1");
}

/// The tensor whose elements `columns` has with the first axis innermost.
HostTensor with_last_axis_innermost(const HostTensor& columns) {
  HostTensor rows(columns.type());
  const auto& dims = columns.shape().dims();
  const std::size_t each = dtype_bytes(columns.dtype());
  std::vector<std::int64_t> index(dims.size(), 0);
  for (std::size_t from = 0; from < columns.num_bytes(); from += each) {
    std::int64_t to = 0;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) to = to * dims[axis] + index[axis];
    std::memcpy(rows.bytes() + static_cast<std::size_t>(to) * each, columns.bytes() + from, each);
    for (std::size_t axis = 0; axis < dims.size() && ++index[axis] == dims[axis]; ++axis) index[axis] = 0;
  }
  return rows;
}

/// The elements as they are to be, of those that have just been read.
HostTensor in_our_order(HostTensor tensor, const NpyHeader& header, const std::string& where) {
  if (header.big_endian) reverse_each(tensor.bytes(), tensor.num_bytes(), dtype_bytes(tensor.dtype()));
  check_booleans(tensor.bytes(), tensor.type(), tensor.num_bytes(), where);
  if (header.fortran_order && tensor.shape().rank() > 1) return with_last_axis_innermost(tensor);
  return tensor;
}

NpyHeader header_of(const FileAt& file) {
  std::string head(static_cast<std::size_t>(std::min<std::uint64_t>(file.num_bytes(), kNpyMaxHeaderBytes)), '\0');
  file.read_at(0, head.data(), head.size());
  return checked_header(head, file.num_bytes(), file.where());
}

class NpySource final : public IndexedSource {
 public:
  explicit NpySource(const std::map<std::string, fs::path>& files) {
    for (const auto& [key, path] : files) {
      Column column{std::make_unique<FileAt>(path, "npy file"), {}, {}};
      column.header = header_of(*column.file);
      const Shape& shape = column.header.type.shape;
      SF_CHECK(shape.rank() > 0, DataError, column.file->where(), "holds one number; wanted rows along a first axis");
      SF_CHECK(!column.header.fortran_order || shape.rank() == 1, DataError, column.file->where(),
               "has its rows in the order of Fortran, in pieces", hint("save numpy.ascontiguousarray of it"));
      SF_CHECK(columns_.empty() || shape[0] == size_, DataError, column.file->where(), "has ", shape[0],
               " rows, the others have ", size_, hint("are they files of one data set?"));
      size_ = shape[0];
      const auto& dims = shape.dims();
      column.row = {column.header.type.dtype, Shape(std::vector<std::int64_t>(dims.begin() + 1, dims.end()))};
      paths_.push_back(path);
      name_ += text_of(name_.empty() ? "npy '" : ", '", path.string(), "'");
      columns_.emplace(key, std::move(column));
    }
  }
  std::string name() const override { return name_; }
  std::string identity() const override {
    return identity_.get([&] { return "npy " + identity_of_files(paths_); });
  }
  std::int64_t size() const override { return size_; }
  Example at(std::int64_t index) const override {
    SF_CHECK(index >= 0 && index < size_, ArgumentError, name_, ": example ", index, " of ", size_, " was asked for");
    Example example;
    for (const auto& [key, column] : columns_) {
      HostTensor row(column.row);
      const auto offset = column.header.num_bytes + static_cast<std::uint64_t>(index) * row.num_bytes();
      column.file->read_at(offset, row.bytes(), row.num_bytes());
      if (column.header.big_endian) reverse_each(row.bytes(), row.num_bytes(), dtype_bytes(row.dtype()));
      check_booleans(row.bytes(), row.type(), row.num_bytes(), column.file->where());
      example.emplace_hint(example.end(), key, std::move(row));
    }
    return example;
  }

 private:
  struct Column {
    std::unique_ptr<FileAt> file;
    NpyHeader header;
    TensorType row;
  };
  std::map<std::string, Column> columns_;
  std::vector<fs::path> paths_;
  std::string name_;
  TextOnce identity_;
  std::int64_t size_ = 0;
};

}  // namespace

HostTensor read_npy(const fs::path& path) {
  const FileAt file(path, "npy file");
  const NpyHeader header = header_of(file);
  HostTensor tensor(header.type);
  file.read_at(header.num_bytes, tensor.bytes(), tensor.num_bytes());
  return in_our_order(std::move(tensor), header, file.where());
}

HostTensor parse_npy(std::string_view bytes, const std::string& where) {
  const NpyHeader header = checked_header(bytes, bytes.size(), where);
  HostTensor tensor(header.type);
  if (tensor.num_bytes() > 0) std::memcpy(tensor.bytes(), bytes.data() + header.num_bytes, tensor.num_bytes());
  return in_our_order(std::move(tensor), header, where);
}

std::string npy_bytes(const HostTensor& tensor) {
  std::string bytes = npy_header_of(tensor.type());
  if (tensor.num_bytes() > 0) bytes.append(reinterpret_cast<const char*>(tensor.bytes()), tensor.num_bytes());
  return bytes;
}

void write_npy(const fs::path& path, const HostTensor& tensor) {
  const std::string header = npy_header_of(tensor.type());
  AtomicFile file(path, "write_npy");
  file.write(header.data(), header.size());
  file.write(tensor.bytes(), tensor.num_bytes());
  file.commit();
}

std::shared_ptr<const IndexedSource> npy_source(const std::map<std::string, fs::path>& files) {
  SF_CHECK(!files.empty(), ArgumentError, "npy_source: no files; wanted one at least");
  return std::make_shared<NpySource>(files);
}

struct NpyWriter::State {
  fs::path path;
  TensorType type;
  std::int64_t num_rows = 0;
  bool has_failed = false;  // half of what was appended may be in the file
  AtomicFile file;
};

NpyWriter::NpyWriter(fs::path path, TensorType type) {
  SF_CHECK(type.shape.rank() > 0, ShapeError, "NpyWriter: '", path.string(), "' would hold one number ", type.text(),
           "; wanted rows along a first axis");
  const std::string header = npy_header_of(type);
  type.bytes();  // that its size is known and fits 64 bits
  state_.reset(new State{path, std::move(type), 0, false, {path, "NpyWriter"}});
  state_->file.write(header.data(), header.size());
}
NpyWriter::~NpyWriter() = default;

void NpyWriter::append(const HostTensor& rows) {
  const TensorType& type = state_->type;
  std::vector<std::int64_t> wanted = type.shape.dims();
  if (rows.shape().rank() > 0) wanted[0] = rows.shape()[0];
  SF_CHECK(rows.dtype() == type.dtype && rows.shape().dims() == wanted, ShapeError, "NpyWriter: '",
           state_->path.string(), "' ", type.text(), " got rows ", rows.type().text());
  SF_CHECK(rows.shape()[0] <= type.shape[0] - state_->num_rows, ShapeError, "NpyWriter: '", state_->path.string(), "' ",
           type.text(), " has ", state_->num_rows, " rows already and got ", rows.shape()[0], " more");
  SF_CHECK(!state_->has_failed, DataError, "NpyWriter: '", state_->path.string(), "': an earlier call has failed",
           hint("make a new writer"));
  state_->has_failed = true;
  state_->file.write(rows.bytes(), rows.num_bytes());
  state_->has_failed = false;
  state_->num_rows += rows.shape()[0];
}

void NpyWriter::finish() {
  SF_CHECK(!state_->has_failed, DataError, "NpyWriter: '", state_->path.string(), "': an earlier call has failed",
           hint("make a new writer"));
  SF_CHECK(state_->num_rows == state_->type.shape[0], ArgumentError, "NpyWriter: '", state_->path.string(), "' ",
           state_->type.text(), " has got only ", state_->num_rows, " of its rows");
  state_->file.commit();
}

}  // namespace sectionflow
