#include "runtime/poison.h"

#include "base/error.h"
#include "runtime/device_bytes.h"

namespace sectionflow {
namespace {

constexpr int kStorageGuard = 0x3C;
}  // namespace

void poison_births(const Program& program, StepIndex index, std::byte* region, Device& device) {
  for (std::size_t i = 0; i < program.storage.storages.size(); ++i) {
    const Storage& storage = program.storage.storages[i];
    if (storage.life.first != index || storage.bytes == 0 || storage.fixed_offset) continue;
    if (storage.tier != Tier::device) continue;
    std::byte* begin = region + program.plan.offsets[i];
    fill_device_bytes(device, begin, storage.bytes - kPoisonGuardBytes, kPoison);
    fill_device_bytes(device, begin + storage.bytes - kPoisonGuardBytes, kPoisonGuardBytes, kStorageGuard);
  }
}

void poison_deaths(const Program& program, StepIndex index, std::byte* region, Device& device, const Graph& graph) {
  for (int dying : program.dying[static_cast<std::size_t>(index)]) {
    const auto i = static_cast<std::size_t>(dying);
    const Storage& storage = program.storage.storages[i];
    std::byte* begin = region + program.plan.offsets[i];
    SF_CHECK(storage.fixed_offset ||
                 device_bytes_are(device, begin + storage.bytes - kPoisonGuardBytes, kPoisonGuardBytes, kStorageGuard),
             InternalError, "poison: bytes behind a buffer were written; its last reader is ",
             graph.node(program.schedule.steps[static_cast<std::size_t>(index)].node).label());
    fill_device_bytes(device, begin, storage.bytes, kPoison);
  }
}

}  // namespace sectionflow
