#include "sources/npz.h"

#include "sources/missing_library.h"

#ifdef SF_HAS_LIBZIP
#include <zip.h>

#include <memory>
#include <string>
#include <vector>

#include "base/whole_file.h"
#include "data/npy.h"
#endif

namespace sectionflow {

#ifdef SF_HAS_LIBZIP
namespace {

struct DiscardZip {
  void operator()(zip_t* zip) const { zip_discard(zip); }
};
struct CloseZipFile {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
struct FreeZipSource {
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
using Zip = std::unique_ptr<zip_t, DiscardZip>;
using ZipSource = std::unique_ptr<zip_source_t, FreeZipSource>;

std::string zip_error_text(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

/// A compressed byte expands to so many at most (RFC 1951: 258 of a code of two bits).
constexpr zip_uint64_t kMostExpansion = 1032;

/// The expanded bytes of an entry, when they are as many as it says and its checksum is right.
std::string entry_bytes(zip_t* zip, zip_uint64_t index, std::size_t most_bytes, const std::string& where) {
  zip_stat_t status;
  zip_stat_init(&status);
  constexpr zip_uint64_t kWanted = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
  SF_CHECK(zip_stat_index(zip, index, 0, &status) == 0 && (status.valid & kWanted) == kWanted, DataError, where,
           "its sizes cannot be read (", zip_strerror(zip), ")");
  SF_CHECK(status.size <= most_bytes, DataError, where, "has ", status.size, " bytes, and ", most_bytes,
           " are left of those that are read", hint("raise max_bytes if the file is right"));
  SF_CHECK(status.size / kMostExpansion <= status.comp_size, DataError, where, "says that ", status.comp_size,
           " bytes expand to ", status.size, ", which they cannot", hint("fetch it again"));
  const std::unique_ptr<zip_file_t, CloseZipFile> file(zip_fopen_index(zip, index, 0));
  SF_CHECK(file != nullptr, DataError, where, "cannot be expanded (", zip_strerror(zip), ")");
  std::string bytes(status.size, '\0');
  std::size_t done = 0;
  for (;;) {
    char behind = 0;
    const bool is_full = done == bytes.size();
    const zip_int64_t got =
        zip_fread(file.get(), is_full ? &behind : bytes.data() + done, is_full ? 1 : bytes.size() - done);
    SF_CHECK(got >= 0, DataError, where, "is damaged (", zip_file_strerror(file.get()), ")", hint("fetch it again"));
    if (got == 0) break;
    SF_CHECK(!is_full, DataError, where, "has more bytes than the ", bytes.size(), " that it says");
    done += static_cast<std::size_t>(got);
  }
  SF_CHECK(done == bytes.size(), DataError, where, "ends after ", done, " of ", bytes.size(), " bytes");
  return bytes;
}

}  // namespace

Example read_npz(const std::filesystem::path& path, std::size_t max_bytes) {
  check_path(path, "read_npz");
  const std::string file_where = "npz file '" + path.string() + "': ";
  int code = 0;
  const Zip zip(zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code));
  SF_CHECK(zip != nullptr, DataError, file_where, "cannot be read as a zip file (", zip_error_text(code), ")",
           hint("is the path right, and is it a file of numpy.savez?"));
  Example tensors;
  const zip_int64_t count = zip_get_num_entries(zip.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    const char* given = zip_get_name(zip.get(), index, ZIP_FL_ENC_RAW);
    std::string name = given == nullptr ? "" : given;
    SF_CHECK(name.ends_with(".npy"), DataError, file_where, "entry ", i, " is not called <name>.npy");
    name.resize(name.size() - 4);
    SF_CHECK(!tensors.contains(name), DataError, file_where, "entry ", i, " has the name of an earlier one");
    const std::string where = text_of(file_where, "array '", name, "': ");
    const std::string bytes = entry_bytes(zip.get(), index, max_bytes, where);
    max_bytes -= bytes.size();
    tensors.emplace(std::move(name), parse_npy(bytes, where));
  }
  return tensors;
}

void write_npz(const std::filesystem::path& path, const Example& tensors, bool compressed) {
  zip_error_t error;
  zip_error_init(&error);
  const ZipSource archive(zip_source_buffer_create(nullptr, 0, 0, &error));
  Zip zip(archive == nullptr ? nullptr : zip_open_from_source(archive.get(), ZIP_TRUNCATE, &error));
  if (zip == nullptr) throw std::bad_alloc();
  zip_source_keep(archive.get());
  std::vector<std::string> contents;  // libzip reads them when it closes
  contents.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    SF_CHECK(!name.empty() && name.find('/') == std::string::npos && name.find('\0') == std::string::npos,
             ArgumentError, "write_npz: '", name, "' cannot be an array's name", hint("give it one without '/'"));
    contents.push_back(npy_bytes(tensor));
    zip_source_t* content = zip_source_buffer(zip.get(), contents.back().data(), contents.back().size(), 0);
    const zip_int64_t index =
        content == nullptr ? -1 : zip_file_add(zip.get(), (name + ".npy").c_str(), content, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      if (content != nullptr) zip_source_free(content);
      throw DataError(text_of("write_npz: '", path.string(), "': array '", name, "': ", zip_strerror(zip.get())));
    }
    const auto entry = static_cast<zip_uint64_t>(index);
    zip_set_file_compression(zip.get(), entry, compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    constexpr zip_uint16_t kFirstDay = 1U << 5 | 1U;  // 1980-01-01, so that equal tensors give equal files
    zip_file_set_dostime(zip.get(), entry, 0, kFirstDay, 0);
  }
  SF_CHECK(zip_close(zip.get()) == 0, DataError, "write_npz: '", path.string(), "': ", zip_strerror(zip.get()));
  zip.release();
  // An archive of nothing is no file to libzip; to others it is these bytes.
  std::string bytes = std::string("PK\5\6") + std::string(18, '\0');
  if (zip_source_open(archive.get()) == 0) {
    zip_stat_t status;
    zip_stat_init(&status);
    const bool is_known = zip_source_stat(archive.get(), &status) == 0 && (status.valid & ZIP_STAT_SIZE) != 0;
    bytes.assign(is_known ? status.size : 0, '\0');
    const zip_int64_t got = zip_source_read(archive.get(), bytes.data(), bytes.size());
    zip_source_close(archive.get());
    SF_CHECK(is_known && got == static_cast<zip_int64_t>(bytes.size()), DataError, "write_npz: '", path.string(),
             "': the archive could not be put together");
  }
  write_whole_file(path, bytes, "write_npz");
}
#else
Example read_npz(const std::filesystem::path&, std::size_t) {
  missing_library("read_npz", "libzip", "libzip-dev");
}
void write_npz(const std::filesystem::path&, const Example&, bool) {
  missing_library("write_npz", "libzip", "libzip-dev");
}
#endif

}  // namespace sectionflow
