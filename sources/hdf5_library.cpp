#ifdef SF_HAS_HDF5C
#include "sources/hdf5_library.h"

#include <algorithm>
#include <new>

#include "base/nearest.h"

namespace sectionflow {
namespace {

std::mutex& library_mutex() {
  static std::mutex one;
  return one;
}

constexpr std::size_t kMostListed = 100'000;

/// Adds what a group holds itself to the names; what links lead to stays out. Above the most, the rest is not read.
herr_t add_name(hid_t, const char* name, const H5L_info_t* link, void* to) {
  auto& names = *static_cast<std::vector<std::string>*>(to);
  if (link->type != H5L_TYPE_HARD) return 0;
  try {
    names.emplace_back(name);
  } catch (const std::bad_alloc&) {  // which must not pass through the library
    return -1;
  }
  return names.size() < kMostListed ? 0 : 1;
}

}  // namespace

Hdf5Turn::Hdf5Turn() : lock_(library_mutex()) {
  H5open();
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLget_loading_state(&plugins_);
  H5PLset_loading_state(0);
}

Hdf5Turn::~Hdf5Turn() {
  H5PLset_loading_state(plugins_);
  H5Eset_auto2(H5E_DEFAULT, print_, print_data_);
}

std::string hdf5_reason() {
  std::string text;
  const auto take = [](unsigned, const H5E_error2_t* error, void* to) -> herr_t {
    if (error->desc != nullptr) *static_cast<std::string*>(to) = std::string(error->desc).substr(0, 200);
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, take, &text);
  return text.empty() ? "no reason is given" : text;
}

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
    case Dtype::i8:
      return H5T_NATIVE_INT8;
    case Dtype::u8:
      return H5T_NATIVE_UINT8;
    default:
      return -1;
  }
}

std::vector<std::string> hdf5_names(hid_t file, const std::string& where) {
  std::vector<std::string> names;
  want_hdf5(H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, add_name, &names) >= 0, where, "its groups cannot be listed");
  SF_CHECK(names.size() < kMostListed, DataError, where, "has more than ", kMostListed, " names");
  return names;
}

void throw_unopened_dataset(hid_t file, const std::string& where, const std::string& name) {
  // Before any other call takes its place.
  const std::string reason = hdf5_reason();
  SF_CHECK(H5Lexists(file, name.c_str(), H5P_DEFAULT) <= 0, DataError, where, "dataset '", name,
           "': cannot be opened (", reason, ")");
  constexpr std::size_t kMostSought = 1000;
  std::vector<std::string> names = hdf5_names(file, where), datasets;
  names.resize(std::min(names.size(), kMostSought));
  for (const std::string& each : names) {
    const Hdf5Handle object(H5Oopen(file, each.c_str(), H5P_DEFAULT), H5Oclose);
    if (object.is_there() && H5Iget_type(object.get()) == H5I_DATASET) datasets.push_back("/" + each);
  }
  const std::string from_root = name.starts_with('/') ? name : "/" + name;
  const NamesInFile known = names_in_file(from_root, datasets, "list_hdf5 lists the datasets of a file");
  throw DataError(error_text_of(where, "there is no dataset '", name, "'; there are ", known.list, known.hint));
}

}  // namespace sectionflow
#endif
