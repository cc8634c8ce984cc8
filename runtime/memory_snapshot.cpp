#include "runtime/memory_snapshot.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "base/pickle.h"
#include "base/whole_file.h"
#include "runtime/engine.h"
#include "runtime/step_events.h"

namespace sectionflow {
namespace {

/// Where the arena begins: any address will do, but not 0.
constexpr std::int64_t kArenaAddress = std::int64_t{1} << 32;

std::int64_t signed_size(std::size_t bytes) {
  return static_cast<std::int64_t>(bytes);
}

/// Bytes in the arena that begin or end to be somebody's.
struct ArenaBlock {
  std::size_t offset = 0, bytes = 0;
  std::string category{};
  struct Frame {
    std::string name, section;
    StepIndex step;
  };
  std::vector<Frame> frames{};
};

void write_frames(const std::vector<ArenaBlock::Frame>& frames, PickleWriter& out) {
  out.key("frames");
  out.begin_list();
  for (const ArenaBlock::Frame& frame : frames) {
    out.begin_dict();
    out.key("name");
    out.text(frame.name);
    out.key("filename");
    out.text(frame.section);
    out.key("line");
    out.integer(frame.step);
    out.end_dict();
  }
  out.end_list();
}

void write_event(const char* action, const ArenaBlock& block, double time_us, PickleWriter& out) {
  out.begin_dict();
  out.key("action");
  out.text(action);
  out.key("addr");
  out.integer(kArenaAddress + signed_size(block.offset));
  out.key("size");
  out.integer(signed_size(block.bytes));
  out.key("stream");
  out.integer(0);
  out.key("time_us");
  out.integer(static_cast<std::int64_t>(time_us));
  out.key("category");
  out.text(block.category);
  write_frames(block.frames, out);
  out.end_dict();
}

std::vector<ArenaBlock> variable_blocks(const Engine& engine) {
  std::vector<ArenaBlock> blocks;
  const auto& offsets = engine.layout().offsets;
  for (NodeId id = 0; id < engine.graph().num_nodes() && static_cast<std::size_t>(id) < offsets.size(); ++id) {
    const std::size_t offset = offsets[static_cast<std::size_t>(id)];
    if (offset == VariableLayout::kAbsent) continue;
    const Node& node = engine.graph().node(id);
    const TensorType& type = node.output_types().at(0);
    const std::size_t bytes = engine.bytes_here(engine.graph().node(id).output());
    if (bytes == 0) continue;
    blocks.push_back(
        {.offset = offset,
         .bytes = bytes,
         .category = "variables",
         .frames = {{text_of(node.name(), " ", type.text()), section_name(engine.graph(), node.group()), 0}}});
  }
  std::sort(blocks.begin(), blocks.end(), [](const ArenaBlock& a, const ArenaBlock& b) { return a.offset < b.offset; });
  return blocks;
}

/// "logits", "logits, part 3 of 8".
std::string name_of(const Buffer& buffer, const Step& begins) {
  const std::string name = buffer.value.name();
  return buffer.parts > 1 ? text_of(name, ", part ", begins.part + 1, " of ", buffer.parts) : name;
}

/// One a storage; of no bytes for what lies elsewhere.
std::vector<ArenaBlock> storage_blocks(const Program& program, const Graph& graph) {
  std::vector<ArenaBlock> blocks(program.storage.storages.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (program.storage.storages[i].tier != Tier::device) continue;
    blocks[i].offset = program.transient_offset + program.plan.offsets[i];
    blocks[i].bytes = program.storage.storages[i].bytes;
  }
  for (std::size_t i = 0; i < program.schedule.buffers.size(); ++i) {
    const Buffer& buffer = program.schedule.buffers[i];
    ArenaBlock& block = blocks[static_cast<std::size_t>(program.storage.storage_of_buffer[i])];
    const Step& step = program.schedule.steps[static_cast<std::size_t>(buffer.life.first)];
    const std::string section = section_name(graph, section_of(program, graph, buffer));
    if (block.frames.empty()) block.category = section;
    block.frames.push_back(
        {buffer.value.valid() ? name_of(buffer, step) : text_of("scratch of ", graph.node(step.node).label()),
         text_of(section, ", ", program.schedule.passes[static_cast<std::size_t>(step.pass)].text()),
         buffer.life.first});
  }
  return blocks;
}

struct Change {
  double at = 0;
  std::int64_t order = 0;  // among those of one time: steps one after the other, what begins with one before what ends
  std::size_t block = 0;
  bool begins = false;
};

std::vector<Change> changes_of(const Program& program, const std::vector<TimeSpan>& stays,
                               const std::vector<ArenaBlock>& blocks) {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].bytes == 0) continue;
    const Life life = program.storage.storages[i].life;
    changes.push_back({stays[i].start, 2 * std::int64_t{life.first}, i, true});
    changes.push_back({stays[i].end, 2 * std::int64_t{life.last} + 1, i, false});
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return std::tie(a.at, a.order) < std::tie(b.at, b.order); });
  return changes;
}

void write_block(std::size_t bytes, const ArenaBlock* block, std::size_t offset, PickleWriter& out) {
  out.begin_dict();
  out.key("address");
  out.integer(kArenaAddress + signed_size(offset));
  out.key("size");
  out.integer(signed_size(bytes));
  out.key("requested_size");
  out.integer(signed_size(block != nullptr ? block->bytes : 0));
  out.key("state");
  out.text(block != nullptr ? "active_allocated" : "inactive");
  write_frames(block != nullptr ? block->frames : std::vector<ArenaBlock::Frame>{}, out);
  out.end_dict();
}

/// Readers find the address of a block by the sizes of those before it: blocks cover the segment without a gap.
void write_blocks(const std::vector<ArenaBlock>& variables, std::size_t segment_bytes, PickleWriter& out) {
  out.key("blocks");
  out.begin_list();
  std::size_t end = 0;
  for (const ArenaBlock& variable : variables) {
    if (variable.offset > end) write_block(variable.offset - end, nullptr, end, out);
    write_block(variable.bytes, &variable, variable.offset, out);
    end = variable.offset + variable.bytes;
  }
  if (segment_bytes > end) write_block(segment_bytes - end, nullptr, end, out);
  out.end_list();
}

void write_segment(const std::vector<ArenaBlock>& variables, std::size_t segment_bytes, PickleWriter& out) {
  std::size_t variable_bytes = 0;
  for (const ArenaBlock& variable : variables) variable_bytes += variable.bytes;
  out.begin_dict();
  const auto number = [&](const char* key, std::int64_t value) {
    out.key(key);
    out.integer(value);
  };
  number("device", 0);
  number("address", kArenaAddress);
  number("total_size", signed_size(segment_bytes));
  number("allocated_size", signed_size(variable_bytes));
  number("active_size", signed_size(variable_bytes));
  number("requested_size", signed_size(variable_bytes));
  number("stream", 0);
  out.key("segment_type");
  out.text("large");
  out.key("segment_pool_id");
  out.integers({0, 0});
  out.key("is_expandable");
  out.truth(false);
  write_frames({}, out);
  write_blocks(variables, segment_bytes, out);
  out.end_dict();
}

std::string snapshot_of(const Engine& engine, const Program& program, const Trace& trace) {
  const std::vector<TimeSpan> stays = storage_stays(program, step_spans(program, trace, "write_memory_snapshot"));
  const std::vector<ArenaBlock> variables = variable_blocks(engine);
  const std::vector<ArenaBlock> blocks = storage_blocks(program, engine.graph());
  PickleWriter out;
  out.begin_dict();
  out.key("segments");
  out.begin_list();
  write_segment(variables, std::max(engine.machine().device_memory, program.report.planned_peak_bytes), out);
  out.end_list();
  out.key("device_traces");
  out.begin_list();
  out.begin_list();
  // The page counts on a category of this name where there are any.
  write_event("snapshot", {.category = "unknown"}, 0, out);
  for (const ArenaBlock& variable : variables) write_event("alloc", variable, 0, out);
  for (const Change& change : changes_of(program, stays, blocks)) {
    const ArenaBlock& block = blocks[change.block];
    if (change.begins) {
      write_event("alloc", block, change.at, out);
    } else {
      write_event("free_requested", block, change.at, out);
      write_event("free_completed", block, change.at, out);
    }
  }
  out.end_list();
  out.end_list();
  out.key("allocator_settings");
  out.begin_dict();
  out.end_dict();
  out.end_dict();
  return out.finish();
}

}  // namespace

void write_memory_snapshot(const std::string& path, const Session& session, const Trace& trace, Where where) {
  call_at(where, [&] {
    const Program* program = engine(session).latest_program();
    SF_CHECK(program != nullptr, ArgumentError,
             "write_memory_snapshot: the session has no program that it planned or ran last",
             hint("call its plan() or run() first"));
    write_whole_file(path, snapshot_of(engine(session), *program, trace), "write_memory_snapshot");
  });
}

}  // namespace sectionflow
