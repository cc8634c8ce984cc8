#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/export.h"
#include "kernels/kernel.h"

namespace SF_API sectionflow {

/// How a kind of device converts `count` elements between bf16 and f32, on the queue where it has queues.
struct Bf16Conversions {
  using Convert = void (*)(void* queue, std::int64_t count, const void* from, void* to);
  Convert widen = nullptr;  ///< bf16 to f32
  Convert round = nullptr;  ///< f32 to bf16
};

/// What a factory knows of bf16.
enum class Bf16 {
  widened,  ///< nothing: it is asked for a kernel of f32, which then works on widened copies
  native    ///< it takes requests with bf16 tensors as they are, or refuses them itself
};

/// The kernels of one kind of device: for each op a list of factories, best first, the plain one last.
class KernelRegistry {
 public:
  explicit KernelRegistry(Bf16Conversions conversions = {}) : conversions_(conversions) {}
  /// The kernels of both, as they are when one is asked for; both must live as long. bf16 is converted as in `first`.
  KernelRegistry(const KernelRegistry& first, const KernelRegistry& second)
      : conversions_(first.conversions_), parts_{&first, &second} {}

  /// Puts a factory behind those that the op has. Throws: ArgumentError (SF-E013) for a null pointer.
  void add(const std::string& op, KernelFactory factory, Bf16 bf16 = Bf16::widened);
  /// The first kernel that takes the request. With bf16 tensors: the first native one, or else the first for f32 around
  /// which they are widened. Throws: ArgumentError when there is none, naming op, types and device.
  std::unique_ptr<Kernel> make(const KernelRequest& request) const;
  /// The kernel for a request with bf16 tensors when none is native: the first for f32 around which they are widened,
  /// or nullptr where that cannot be. Native kernels of arithmetic give the same bits.
  std::unique_ptr<Kernel> make_widened(const KernelRequest& request) const;
  bool has(const std::string& op) const { return entries_of(op) != nullptr; }
  /// Whether any of the op's factories takes bf16 as it is.
  bool has_native_bf16(const std::string& op) const;
  /// The ops that have factories here.
  std::vector<std::string> ops() const;
  /// Moves the factories of `other` here, which has none of these ops.
  void take(KernelRegistry& other) noexcept { factories_.merge(other.factories_); }

 private:
  struct Entry {
    KernelFactory factory;
    Bf16 bf16;
  };
  /// nullptr for an op without kernels.
  const std::vector<Entry>* entries_of(const std::string& op) const;
  std::unique_ptr<Kernel> first_kernel(const std::vector<Entry>& entries, const KernelRequest& request) const;

  Bf16Conversions conversions_;
  std::vector<const KernelRegistry*> parts_;
  std::map<std::string, std::vector<Entry>> factories_;
};

/// The kernels of a kind of device: those of every family of the library, and of those that were registered
/// (extend/register_family.h). Throws: DeviceError for a kind that this machine has not.
const KernelRegistry& kernel_registry(DeviceKind kind);

}  // namespace sectionflow
