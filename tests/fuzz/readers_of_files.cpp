// Readers of data sets and of weights.

#include <zlib.h>

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
#include "planning/instance.h"
#include "sources/datum.h"
#include "sources/image.h"
#include "sources/image_folder.h"
#include "sources/lmdb.h"
#include "sources/npz.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/readers.h"
#include "tests/sources/pictures.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::fuzz {
namespace {

using namespace std::string_literals;

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

}  // namespace

Reader tfrecord_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    drain(*tfrecord_source({file.path()}, schema_of(some_example()), {.max_record_bytes = 1_MiB}));
  };
  return {"tfrecord",
          read,
          {tfrecord_bytes(Compression::none), tfrecord_bytes(Compression::gzip), tfrecord_bytes(Compression::zlib)},
          64,
          2_MiB};
}

Reader lmdb_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    drain(*lmdb_source(file.path()));
  };
  return {"lmdb", read, {lmdb_bytes(3, 2), lmdb_bytes(2, 50), lmdb_bytes(200, 5), lmdb_bytes(0, 1)}, 64, 2_MiB};
}

Reader npz_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    read_npz(file.path(), 1_MiB);
  };
  return {"npz",
          read,
          {written([](const std::filesystem::path& path) { write_npz(path, some_example(), true); }),
           written([](const std::filesystem::path& path) { write_npz(path, some_example(), false); })},
          16,
          4_MiB};
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
  // Without hashes, so that what becomes of it is read further.
  const std::string header = R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]},"__metadata__":{"k":"v"}})";
  const std::string plain =
      std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + "elementsabc";
  return {"safetensors", read, {written(write), plain.substr(0, 8 + header.size() + 11)}, 45, 64_KiB};
}

Reader csv_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    drain(*csv_source(file.path(), {{.name = "x", .columns = {"a", "b"}},
                                    {.name = "y", .columns = {"c"}, .dtype = Dtype::i32, .words = {"u", "v"}}}));
  };
  return {"csv", read, {"a,b,c\n1,2e3,u\r\n\"4\",-.5,\"v\"\n"}, 64, 1_MiB};
}

Reader cifar_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    const Cifar kind = bytes.size() % 3073 == 0 ? Cifar::cifar10 : Cifar::cifar100;
    drain(*cifar_source(kind, {file.path()}));
  };
  return {"cifar", read, {"\1"s + std::string(3072, 'x'), "\1\2"s + std::string(3072, 'x')}, 8, 1_MiB};
}

Reader idx_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    read_idx(file.path(), 1_MiB);
  };
  return {"idx", read, {"\0\0\x08\2\0\0\0\2\0\0\0\3abcdef"s, "\0\0\x0d\1\0\0\0\1\x3f\x80\0\0"s}, 2, 2_MiB};
}

Reader vocabulary_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    Vocabulary::read(file.path()).tokens_of(bytes);
  };
  return {"vocabulary", read, {"a\nab\n\\n\n\\x20\n<unk>\n"}, 200, 1_MiB};
}

Reader example_reader() {
  const auto read = [](const std::string& bytes) { parse_tf_example(bytes, schema_of(some_example()), ""); };
  return {"example", read, {serialize_tf_example(some_example())}, 64, 64_KiB};
}

Reader datum_reader() {
  const auto read = [](const std::string& bytes) { parse_datum(bytes, {}, ""); };
  Example file;
  const std::string png = testing_support::png_of(testing_support::some_picture(2, 3, 3));
  file.emplace("image",
               HostTensor::of<std::uint8_t>({static_cast<std::int64_t>(png.size())}, {png.begin(), png.end()}));
  file.emplace("label", HostTensor::scalar<std::int32_t>(3));
  return {"datum", read, {serialize_datum(some_example(), {}, ""), serialize_datum(file, {}, "")}, 16, 1_MiB};
}

Reader npy_reader() {
  const auto read = [](const std::string& bytes) { parse_npy(bytes, ""); };
  return {"npy",
          read,
          {npy_bytes(HostTensor::of<float>({2, 1}, {1, 2})), npy_bytes(HostTensor::scalar<bool>(true))},
          16,
          64_KiB};
}

Reader image_reader() {
  const auto read = [](const std::string& bytes) { decode_image(bytes, {.max_pixels = 1 << 16}); };
  const HostTensor picture = testing_support::some_picture(9, 12, 3), grey = testing_support::some_picture(8, 8, 1);
  return {"image",
          read,
          {testing_support::png_of(picture), testing_support::jpeg_of(picture, 70), testing_support::png_of(grey),
           testing_support::jpeg_of(grey, 30)},
          16,
          4_MiB};
}

Reader png_reader() {
  // A sum that is wrong ends the reading early.
  const auto with_sums = [](std::string bytes) {
    for (std::size_t at = 8; at + 12 <= bytes.size();) {
      std::size_t length = 0;
      for (int i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(bytes[at + i]);
      if (length > bytes.size() - at - 12) break;
      const auto* chunk = reinterpret_cast<const Bytef*>(bytes.data() + at + 4);
      const uLong sum = crc32(0, chunk, static_cast<uInt>(length + 4));
      for (int i = 0; i < 4; ++i) bytes[at + 8 + length + i] = static_cast<char>(sum >> (24 - 8 * i));
      at += 12 + length;
    }
    return bytes;
  };
  const Reader image = image_reader();
  const auto read = [read = image.read, with_sums](const std::string& bytes) { read(with_sums(bytes)); };
  return {"png", read, {image.seeds[0], image.seeds[2]}, image.memory_per_byte, image.other_memory};
}

Reader image_list_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    image_list(file.path(), "pictures");
  };
  return {"image_list", read, {"cat/1.jpg 0\ndog/2.png 1\n\nb.jpeg\t12\r\n"}, 128, 64_KiB};
}

Reader instance_reader() {
  const auto read = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    planning::check_problem(planning::read_instance(file.path()).problem);
  };
  const std::string kind1 =
      R"({"directed": true, "graph": {"name": "g"}, "nodes": [
          {"name": "a", "backward": false, "cost_cpu": 90, "cost_ram": 31, "id": 0},
          {"name": "b", "backward": true, "cost_cpu": 1.5, "cost_ram": 3e2, "id": 1}],
          "links": [{"source": 0, "target": 1}]})";
  const std::string kind2 =
      R"({"graph": {"order": [0, 2, 1]}, "nodes": [{"out_cost": 790, "duration": 0, "name": 0},
          {"out_cost": 10, "duration": 5, "name": 1}, {"out_cost": 20, "duration": 6, "name": 2}],
          "links": [{"0": 0, "1": 2}, {"0": 2, "1": 1}]})";
  return {"instance", read, {kind1, kind2}, 200, 1_MiB};
}

}  // namespace sectionflow::fuzz
