#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "graph/graph.h"
#include "schedule/program.h"

namespace sectionflow {

/// Blocks of the region, and as many of host memory, for copies that are timed: each copy takes the next pair, round
/// and round. A pair alone would come to lie in caches, which what a cycle copies is too much for.
class CopyBlocks {
 public:
  /// Blocks of `block_bytes`, or of all of the region where that is less; at most `most`, as far as there is room.
  CopyBlocks(std::span<std::byte> region, std::size_t block_bytes, std::size_t most)
      : region_(region),
        bytes_(std::min(block_bytes, region.size())),
        count_(bytes_ == 0 ? 0 : std::min(most, region.size() / bytes_)),
        host_(count_ * bytes_) {}

  std::size_t count() const { return count_; }
  std::size_t bytes() const { return bytes_; }

  struct Pair {
    std::byte *device, *host;
  };
  /// Only where there are blocks.
  Pair next() {
    const std::size_t offset = bytes_ * (turn_++ % count_);
    return {region_.data() + offset, host_.data() + offset};
  }

 private:
  std::span<std::byte> region_;
  std::size_t bytes_, count_, turn_ = 0;
  std::vector<std::byte> host_;
};

/// Pointers for one launch, on scratch bytes.
struct PlacedOperands {
  std::vector<const void*> inputs;
  std::vector<void*> outputs, updated;
  std::byte* workspace = nullptr;
  std::vector<std::span<std::byte>> indices;  ///< inputs that must not hold chance numbers
  bool fits = true;
};

/// Gives the operands of steps places in the region: those of the plan where the whole plan fits. Otherwise what is
/// written comes one behind the other, going round, and what is read is found where it was written as long as nothing
/// else has come there: so caches help about as much as they do in a cycle.
class ScratchPlaces {
 public:
  /// Variables lie at their offsets from `base`; the region is scratch. All must outlive this.
  ScratchPlaces(const Program& program, const VariableLayout& variables, const std::byte* base,
                std::span<std::byte> region)
      : program_(program),
        variables_(variables),
        base_(base),
        region_(region),
        as_planned_(program.plan.peak_bytes <= region.size()),
        next_(as_planned_ ? round_up(program.plan.peak_bytes) : 0) {}

  PlacedOperands place(const Step& step, const Graph& graph, std::size_t workspace_bytes) {
    fits_ = true;
    begun_.clear();
    const std::size_t wanted = wanted_bytes(step, graph, workspace_bytes);
    // Goes back to the start of the region where the rest of it is too small for the step.
    if (!as_planned_ && next_ + wanted > region_.size()) next_ = 0;
    const std::size_t mark = next_;
    if (!as_planned_) forget(mark, mark + wanted);
    PlacedOperands placed;
    for (const Operand& updated : step.updated) placed.updated.push_back(variable_copy(updated, graph));
    for (std::size_t i = 0; i < step.inputs.size(); ++i) placed.inputs.push_back(input(step.inputs[i], placed));
    for (const Operand& output : step.outputs) placed.outputs.push_back(buffer_of(output));
    if (workspace_bytes > 0) placed.workspace = static_cast<std::byte*>(buffer_of(step.workspace));
    placed.fits = fits_;
    if (as_planned_) next_ = mark;
    return placed;
  }

  /// The end of what the program's own buffers may touch.
  std::size_t used_bytes() const { return as_planned_ ? round_up(program_.plan.peak_bytes) : region_.size(); }

 private:
  const void* input(const Operand& operand, PlacedOperands& placed) {
    if (operand.kind == Operand::Kind::variable) {
      const auto copied = begun_.find(-1 - operand.index);
      if (copied != begun_.end()) return copied->second;
      return base_ + variables_.offsets[static_cast<std::size_t>(operand.index)] + operand.offset;
    }
    void* bytes = buffer_of(operand);
    if (bytes == nullptr) return bytes;
    const Buffer& buffer = program_.schedule.buffers[static_cast<std::size_t>(operand.index)];
    if (buffer.value.valid() && !is_floating(buffer.value.dtype())) {
      placed.indices.push_back({static_cast<std::byte*>(bytes), operand_bytes(program_.schedule, operand)});
    }
    return bytes;
  }

  void* buffer_of(const Operand& operand) {
    if (operand.kind != Operand::Kind::buffer) return nullptr;
    const auto index = static_cast<std::size_t>(operand.index);
    const int storage = program_.storage.storage_of_buffer[index];
    if (as_planned_) {
      return region_.data() + program_.plan.offsets[static_cast<std::size_t>(storage)] + operand.offset;
    }
    auto* const whole = static_cast<std::byte*>(begin(storage, program_.schedule.buffers[index].bytes));
    return whole == nullptr ? whole : whole + operand.offset;
  }

  /// An update may write to a copy of its variable alone; one that lives on the device as a buffer is scratch already.
  void* variable_copy(const Operand& operand, const Graph& graph) {
    if (operand.kind == Operand::Kind::buffer) return buffer_of(operand);
    return begin(-1 - operand.index, graph.node(operand.index).output_types()[0].bytes());
  }

  /// Bytes that one launch knows by `key`.
  void* begin(int key, std::size_t bytes) {
    const auto known = begun_.find(key);
    if (known != begun_.end()) return known->second;
    const auto there = there_.find(key);
    if (there != there_.end() && there->second.begin + bytes <= there->second.end) {
      return begun_[key] = region_.data() + there->second.begin;
    }
    if (next_ + round_up(bytes) > region_.size()) {
      fits_ = false;
      return nullptr;
    }
    std::byte* place = region_.data() + next_;
    if (!as_planned_) there_[key] = {next_, next_ + bytes};
    next_ += round_up(bytes);
    begun_[key] = place;
    return place;
  }

  /// What was written there is not there any more.
  void forget(std::size_t begin, std::size_t end) {
    std::erase_if(there_, [&](const auto& entry) { return entry.second.begin < end && begin < entry.second.end; });
  }

  /// What one launch may begin, at most.
  std::size_t wanted_bytes(const Step& step, const Graph& graph, std::size_t workspace_bytes) const {
    std::size_t wanted = round_up(workspace_bytes) + kBufferAlignment;
    for (const auto* operands : {&step.inputs, &step.outputs, &step.updated}) {
      for (const Operand& operand : *operands) {
        if (operand.kind == Operand::Kind::buffer) {
          wanted += round_up(program_.schedule.buffers[static_cast<std::size_t>(operand.index)].bytes);
        } else if (operand.kind == Operand::Kind::variable && operands == &step.updated) {
          wanted += round_up(graph.node(operand.index).output_types()[0].bytes());
        }
      }
    }
    return wanted;
  }

  struct Place {
    std::size_t begin = 0, end = 0;
  };
  const Program& program_;
  const VariableLayout& variables_;
  const std::byte* base_;
  std::span<std::byte> region_;
  bool as_planned_;
  std::size_t next_;
  std::map<int, std::byte*> begun_;  // of one launch: by storage, or -1 - node of a variable
  std::map<int, Place> there_;       // where the plan does not fit: what is still where it was written, by the same
  bool fits_ = true;
};

}  // namespace sectionflow
