#include "tests/fuzz/readers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/whole_file.h"
#include "data/cifar.h"
#include "data/csv.h"
#include "data/idx.h"
#include "data/npy.h"
#include "data/rows.h"
#include "data/safetensors.h"
#include "data/text.h"
#include "data/tfrecord_source.h"
#include "sources/datum.h"
#include "sources/image.h"
#include "sources/lmdb.h"
#include "sources/npz.h"
#include "tests/sources/pictures.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::fuzz {
namespace {

using namespace std::string_literals;

/// A file that is in memory alone. Owns: its descriptor.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0 || write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("no file in memory");
    path_ = "/proc/self/fd/" + std::to_string(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(descriptor_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  int descriptor_;
  std::filesystem::path path_;
};

/// Everything of a stream, whose errors do not end it. Throws: the first of them, at the end.
void drain(const StreamSource& source) {
  const auto stream = source.open();
  std::exception_ptr damage;
  for (int i = 0; i < 100000; ++i) {
    bool has_ended = false;
    try {
      has_ended = !stream->next().has_value();
    } catch (const DataError&) {
      if (damage == nullptr) damage = std::current_exception();
    }
    if (!has_ended) continue;
    if (damage != nullptr) std::rethrow_exception(damage);
    return;
  }
  throw std::runtime_error("a stream that does not end");
}
void drain(const IndexedSource& source) {
  for (std::int64_t i = 0; i < std::min<std::int64_t>(source.size(), 100); ++i) source.at(i);
}

Example some_example() {
  Example example;
  example.emplace("image", testing_support::some_picture(2, 3, 3));
  example.emplace("label", HostTensor::scalar<std::int32_t>(3));
  example.emplace("values", HostTensor::of<float>({2}, {1.5F, -2}));
  return example;
}

std::string tfrecord_bytes(Compression compression) {
  std::string bytes;
  RecordWriter writer([&](const char* more, std::size_t count) { bytes.append(more, count); }, compression);
  for (int i = 0; i < 3; ++i) writer.write(serialize_tf_example(some_example()));
  writer.finish();
  return bytes;
}

std::string lmdb_bytes(std::int64_t count, std::int64_t side) {
  const TemporaryFolder folder;
  Example tensors;
  tensors.emplace("image", HostTensor(Dtype::u8, {count, side, side, 3}));
  tensors.emplace("label", HostTensor(Dtype::i32, {count}));
  write_lmdb(folder.path() / "database", *rows_of("zeros", std::move(tensors)));
  return bytes_of_file(folder.path() / "database" / "data.mdb");
}

template <class Write>
std::string written(const Write& write) {
  const TemporaryFolder folder;
  write(folder.path() / "file");
  return bytes_of_file(folder.path() / "file");
}

Reader tfrecord_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    drain(*tfrecord_source({file.path()}, schema_of(some_example()), {.max_record_bytes = 1_MiB}));
  };
  return {"tfrecord",
          read,
          {tfrecord_bytes(Compression::none), tfrecord_bytes(Compression::gzip), tfrecord_bytes(Compression::zlib)}};
}

Reader lmdb_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    drain(*lmdb_source(file.path()));
  };
  return {"lmdb", read, {lmdb_bytes(3, 2), lmdb_bytes(2, 50), lmdb_bytes(200, 5), lmdb_bytes(0, 1)}};
}

Reader npz_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    read_npz(file.path(), 1_MiB);
  };
  return {"npz",
          read,
          {written([](const std::filesystem::path& path) { write_npz(path, some_example(), true); }),
           written([](const std::filesystem::path& path) { write_npz(path, some_example(), false); })}};
}

Reader safetensors_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    read_safetensors(file.path());
  };
  const Example example = some_example();
  const auto write = [&](const std::filesystem::path& path) {
    std::vector<NamedView> views;
    for (const auto& [name, tensor] : example) views.push_back({name, tensor.view()});
    write_safetensors(path, views, {{"step", "3"}});
  };
  return {"safetensors", read, {written(write)}};
}

Reader csv_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    drain(*csv_source(file.path(), {{.name = "x", .columns = {"a", "b"}},
                                    {.name = "y", .columns = {"c"}, .dtype = Dtype::i32, .words = {"u", "v"}}}));
  };
  return {"csv", read, {"a,b,c\n1,2e3,u\r\n\"4\",-.5,\"v\"\n"}};
}

Reader cifar_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    const Cifar kind = bytes.size() % 3073 == 0 ? Cifar::cifar10 : Cifar::cifar100;
    drain(*cifar_source(kind, {file.path()}));
  };
  return {"cifar", read, {"\1"s + std::string(3072, 'x'), "\1\2"s + std::string(3072, 'x')}};
}

Reader idx_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    read_idx(file.path(), 1_MiB);
  };
  return {"idx", read, {"\0\0\x08\2\0\0\0\2\0\0\0\3abcdef"s, "\0\0\x0d\1\0\0\0\1\x3f\x80\0\0"s}};
}

Reader vocabulary_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    Vocabulary::read(file.path()).tokens_of(bytes);
  };
  return {"vocabulary", read, {"a\nab\n\\n\n\\x20\n<unk>\n"}};
}

Reader example_reader() {
  const auto read = [](const std::string& bytes) { parse_tf_example(bytes, schema_of(some_example()), ""); };
  return {"example", read, {serialize_tf_example(some_example())}};
}

Reader datum_reader() {
  const auto read = [](const std::string& bytes) { parse_datum(bytes, {}, ""); };
  Example file;
  const std::string png = testing_support::png_of(testing_support::some_picture(2, 3, 3));
  file.emplace("image",
               HostTensor::of<std::uint8_t>({static_cast<std::int64_t>(png.size())}, {png.begin(), png.end()}));
  file.emplace("label", HostTensor::scalar<std::int32_t>(3));
  return {"datum", read, {serialize_datum(some_example(), {}, ""), serialize_datum(file, {}, "")}};
}

Reader npy_reader() {
  const auto read = [](const std::string& bytes) { parse_npy(bytes, ""); };
  return {"npy", read, {npy_bytes(HostTensor::of<float>({2, 1}, {1, 2})), npy_bytes(HostTensor::scalar<bool>(true))}};
}

Reader image_reader() {
  const auto read = [](const std::string& bytes) { decode_image(bytes, {.max_pixels = 1 << 16}); };
  const HostTensor picture = testing_support::some_picture(9, 12, 3), grey = testing_support::some_picture(8, 8, 1);
  return {"image",
          read,
          {testing_support::png_of(picture), testing_support::jpeg_of(picture, 70), testing_support::png_of(grey),
           testing_support::jpeg_of(grey, 30)}};
}

}  // namespace

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = {
      tfrecord_reader(), example_reader(), datum_reader(), lmdb_reader(),  idx_reader(),        cifar_reader(),
      npy_reader(),      npz_reader(),     csv_reader(),   image_reader(), vocabulary_reader(), safetensors_reader()};
  return all;
}

}  // namespace sectionflow::fuzz
