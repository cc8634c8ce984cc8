#pragma once

// What reading and writing have of the HDF5 library; only where it is there.
#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"

namespace sectionflow {

/// The library as one call uses it: alone, silent, without plugins and links to other files. What the program has set
/// is put back afterwards.
class Hdf5Turn {
 public:
  Hdf5Turn();
  Hdf5Turn(const Hdf5Turn&) = delete;
  Hdf5Turn& operator=(const Hdf5Turn&) = delete;
  ~Hdf5Turn();

 private:
  std::lock_guard<std::mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
  unsigned plugins_ = 0;
};

/// What the library says of its last error.
std::string hdf5_reason();

/// Throws: DataError of the parts and the library's reason unless the condition holds.
template <class... Parts>
void want_hdf5(bool condition, const Parts&... parts) {
  if (!condition) throw DataError(error_text_of(parts..., " (", hdf5_reason(), ")"));
}

/// Something of the library's. Owns: it; to be given back in a turn.
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

/// The library's type of our elements in memory; below 0 for those that it does not get.
hid_t memory_type(Dtype dtype);

/// The names of all that the groups of a file hold themselves, from its root on; what links lead to stays out. Throws:
/// DataError, which `where` begins, where they cannot be listed or are very many.
std::vector<std::string> hdf5_names(hid_t file, const std::string& where);

/// Behind the call that could not open a dataset: throws DataError, which `where` begins, with the library's reason, or
/// with the datasets that there are and the nearest where there is none of that name.
[[noreturn]] void throw_unopened_dataset(hid_t file, const std::string& where, const std::string& name);

}  // namespace sectionflow
