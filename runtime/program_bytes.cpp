// How much host memory a compiled program takes.

#include "runtime/program_cache.h"
#include "runtime/queue_program.h"

namespace sectionflow {
namespace {

/// What an allocation takes beside its bytes, and what it is rounded up to (glibc on 64 bits).
constexpr std::size_t kAllocationHead = 8, kAllocationUnit = 16;
/// Links and colour of a node of std::map or std::set.
constexpr std::size_t kTreeNode = 32;
/// A kernel's object with its geometry: what the library's classes of kernels are on average.
constexpr std::size_t kKernelBytes = 256;

std::size_t allocated(std::size_t bytes) {
  if (bytes == 0) return 0;
  return (bytes + kAllocationHead + kAllocationUnit - 1) / kAllocationUnit * kAllocationUnit;
}

template <class Item>
std::size_t bytes_of(const std::vector<Item>& items) {
  return allocated(items.capacity() * sizeof(Item));
}
std::size_t bytes_of(const std::string& text) {
  return text.capacity() < sizeof(text) / 2 ? 0 : allocated(text.capacity() + 1);
}

/// The vector, and what each of its items says of itself.
template <class Item, class Inner>
std::size_t bytes_of(const std::vector<Item>& items, const Inner& inner) {
  std::size_t bytes = bytes_of(items);
  for (const Item& item : items) bytes += inner(item);
  return bytes;
}

std::size_t bytes_of(const Schedule& schedule) {
  const auto of_step = [](const Step& step) {
    return bytes_of(step.inputs) + bytes_of(step.outputs) + bytes_of(step.updated) + bytes_of(step.waits);
  };
  const auto of_buffer = [](const Buffer& buffer) { return bytes_of(buffer.other_names); };
  const auto of_slot = [](const FetchSlot& slot) { return bytes_of(slot.type.shape.dims()); };
  return bytes_of(schedule.passes) + bytes_of(schedule.steps, of_step) + bytes_of(schedule.buffers, of_buffer) +
         bytes_of(schedule.feeds) + bytes_of(schedule.fetches, of_slot) + bytes_of(schedule.step_of_instruction);
}

std::size_t bytes_of(const InstructionList& list) {
  const auto of_entry = [](const EntryValue& entry) { return bytes_of(entry.other_names); };
  return bytes_of(list.passes) + bytes_of(list.instructions) + bytes_of(list.entries, of_entry);
}

std::size_t bytes_of(const ProgramReport& report) {
  const auto of_text = [](const std::string& text) { return bytes_of(text); };
  const auto of_tensor = [](const LiveTensor& tensor) { return bytes_of(tensor.name) + bytes_of(tensor.type); };
  return bytes_of(report.fullest_step) + bytes_of(report.largest_live, of_tensor) + bytes_of(report.notes, of_text) +
         bytes_of(report.advice);
}

std::size_t bytes_of(const Signature& signature) {
  std::size_t bytes = signature.booleans.size() * allocated(kTreeNode + sizeof(std::pair<const NodeId, bool>));
  for (const auto& [node, shape] : signature.shapes) {
    bytes += allocated(kTreeNode + sizeof(std::pair<const NodeId, Shape>)) + bytes_of(shape.dims());
  }
  return bytes;
}

std::size_t bytes_of(const ProgramDigest& digest) {
  return bytes_of(digest.pass_begins) + bytes_of(digest.beside) + bytes_of(digest.feeds) + bytes_of(digest.fetches);
}

std::size_t bytes_of(const BoundStep& step) {
  return bytes_of(step.inputs) + bytes_of(step.outputs) + bytes_of(step.updated);
}

}  // namespace

std::size_t program_bytes(const Executable& program) {
  std::size_t bytes = allocated(sizeof(Executable)) + bytes_of(program.schedule) + bytes_of(program.written) +
                      bytes_of(program.report) + bytes_of(program.signature) + bytes_of(program.storage.storages) +
                      bytes_of(program.storage.storage_of_buffer) + bytes_of(program.plan.offsets) +
                      bytes_of(program.digest) +
                      bytes_of(program.bound, [](const BoundStep& step) { return bytes_of(step); }) +
                      bytes_of(program.dying, [](const std::vector<int>& storages) { return bytes_of(storages); });
  bytes += bytes_of(program.kernels, [](const std::unique_ptr<Kernel>& kernel) {
    return allocated(kKernelBytes) + kernel->library_bytes();
  });
  if (program.queue) bytes += program.queue->host_bytes();
  return bytes;
}

}  // namespace sectionflow
