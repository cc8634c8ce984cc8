#ifdef SF_HAS_HDF5C
#include "sources/hdf5_library.h"

namespace sectionflow {
namespace {

std::mutex& library_mutex() {
  static std::mutex one;
  return one;
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
    case Dtype::u8:
      return H5T_NATIVE_UINT8;
    default:
      return -1;
  }
}

}  // namespace sectionflow
#endif
