#include "tests/support/cuda_calls.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <utility>

#include "base/bytes.h"

namespace sectionflow::testing_support {
namespace {

bool ends_with_version(std::string_view name, std::size_t at) {
  return at != std::string_view::npos && at + 2 < name.size() &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(at) + 2, name.end(),
                     [](unsigned char letter) { return std::isdigit(letter) != 0; });
}

/// Without "_v2", "_v3020", and the marks of streams that are a thread's own.
std::string_view without_suffixes(std::string_view name) {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::string_view mark : {"_ptsz", "_ptds"}) {
      if (!name.ends_with(mark)) continue;
      name.remove_suffix(mark.size());
      changed = true;
    }
    if (const std::size_t at = name.rfind("_v"); ends_with_version(name, at)) {
      name = name.substr(0, at);
      changed = true;
    }
  }
  return name;
}

bool has_one_of(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

bool is_wait(CudaCallKind kind) {
  return kind == CudaCallKind::wait_for_stream || kind == CudaCallKind::wait_for_event ||
         kind == CudaCallKind::wait_for_all || kind == CudaCallKind::blocking_copy;
}

CudaCallKind kind_of_wait(std::string_view name) {
  if (has_one_of(name, {"Event"})) return CudaCallKind::wait_for_event;
  return has_one_of(name, {"Stream"}) ? CudaCallKind::wait_for_stream : CudaCallKind::wait_for_all;
}

const char* text_of_memory(CopyMemory memory) {
  switch (memory) {
    case CopyMemory::pageable:
      return "pageable";
    case CopyMemory::pinned:
      return "pinned";
    case CopyMemory::device:
      return "device";
    case CopyMemory::other:
      break;
  }
  return "other";
}

}  // namespace

CudaCallKind kind_of_cuda_call(std::string_view function) {
  const std::string_view name = without_suffixes(function);
  // Names beginning with "__cuda" enter what a program brings along; none of them runs in a cycle.
  if (name.starts_with("__") || has_one_of(name, {"Get", "RetainAllocationHandle", "SetAllocator", "ChannelDesc"})) {
    return CudaCallKind::harmless;
  }
  if (has_one_of(name, {"Synchronize"})) return kind_of_wait(name);
  if (has_one_of(name, {"Memcpy", "Memset"})) {
    return has_one_of(name, {"Async", "Node"}) ? CudaCallKind::harmless : CudaCallKind::blocking_copy;
  }
  // "Unregister" before "Register", and "Unload" before "Load".
  if (has_one_of(name, {"Free", "Unregister", "Unmap", "MemRelease", "CloseMemHandle", "TrimTo", "MemTrim", "Destroy",
                        "Unload", "DeviceReset", "CtxReset", "CtxRelease"})) {
    return name.ends_with("L2Cache") ? CudaCallKind::harmless : CudaCallKind::release;
  }
  if (has_one_of(name, {"Alloc", "Malloc", "HostRegister", "PeerRegister", "MemCreate", "MemMap", "AddressReserve",
                        "ArrayCreate", "Array3DCreate", "MemPoolCreate", "MemImport", "ImportExternalMemory",
                        "OpenMemHandle", "MulticastCreate"})) {
    return CudaCallKind::allocation;
  }
  if (has_one_of(name, {"Create", "Instantiate", "LoadData", "LoadFatBinary", "LoadFromFile", "GraphUpload"}) ||
      name.ends_with("Load")) {
    return CudaCallKind::making;
  }
  return CudaCallKind::harmless;
}

std::string to_text(const std::vector<CudaFinding>& findings) {
  std::string text;
  for (const CudaFinding& finding : findings) text += (text.empty() ? "" : ", ") + finding.text;
  return text.empty() ? "nothing" : text;
}

void CudaCallLog::begin() {
  const std::lock_guard lock(mutex_);
  findings_.clear();
  num_copies_ = 0;
  open_ = true;
}

std::vector<CudaFinding> CudaCallLog::end() {
  const std::lock_guard lock(mutex_);
  open_ = false;
  return std::exchange(findings_, {});
}

void CudaCallLog::enter(const char* function) {
  const std::lock_guard lock(mutex_);
  auto& calls = calls_[std::this_thread::get_id()];
  const bool counted =
      std::any_of(calls.begin(), calls.end(), [](const OpenCall& call) { return call.kind != CudaCallKind::harmless; });
  const CudaCallKind kind = kind_of_cuda_call(function);
  calls.push_back({function, kind});
  if (open_ && !counted && kind != CudaCallKind::harmless) {
    findings_.push_back({CudaFinding::Kind::call, kind, std::string(without_suffixes(function))});
  }
}

void CudaCallLog::leave(const char* function) {
  const std::lock_guard lock(mutex_);
  auto& calls = calls_[std::this_thread::get_id()];
  // A call that began before the hook was there has no beginning here.
  const auto entered =
      std::find_if(calls.rbegin(), calls.rend(), [&](const OpenCall& call) { return call.function == function; });
  if (entered != calls.rend()) calls.erase(entered.base() - 1, calls.end());
}

void CudaCallLog::waited() {
  const std::lock_guard lock(mutex_);
  const auto& calls = calls_[std::this_thread::get_id()];
  if (!open_ || std::any_of(calls.begin(), calls.end(), [](const OpenCall& call) { return is_wait(call.kind); })) {
    return;
  }
  const std::string where = calls.empty() ? "no call" : std::string(without_suffixes(calls.back().function));
  findings_.push_back({CudaFinding::Kind::hidden_wait, CudaCallKind::harmless, "a wait inside " + where});
}

void CudaCallLog::copied(CopyMemory from, CopyMemory to, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!open_) return;
  ++num_copies_;
  if (from != CopyMemory::pageable && to != CopyMemory::pageable) return;
  findings_.push_back(
      {CudaFinding::Kind::pageable_copy, CudaCallKind::harmless,
       "a copy of " + bytes_text(bytes) + " from " + text_of_memory(from) + " to " + text_of_memory(to) + " memory"});
}

}  // namespace sectionflow::testing_support
