// What fits a screen is no part of its own, unless it says why.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "tests/house/source_tree.h"

namespace sectionflow::house {
namespace {

constexpr std::size_t kLeastLines = 40;
constexpr std::size_t kLeastLinesOfFamily = 5 * kLeastLines;  // a room each

/// Folders that keep to the rule.
const std::set<std::string> kFolders = {"base",    "comm",     "planning", "graph",   "autodiff", "device",   "kernels",
                                        "extend",  "schedule", "runtime",  "swap",    "fit",      "sections", "data",
                                        "sources", "train",    "compare",  "op_case", "transform"};

/// Small parts that stand alone all the same, and why.
using Reasons = std::map<std::string, std::string>;
const Reasons kReasons = {
    {"autodiff/registration", "what register_family alone calls, and no header for users may declare"},
    {"base/allocation_scope", "tools that watch the allocator include nothing else of ours"},
    {"base/checked_arithmetic", "whoever counts in sizes of users includes it, and no header for users may"},
    {"base/export", "every header for users includes this macro"},
    {"base/host_device", "every header that GPUs share includes this macro"},
    {"base/log", "the one place that knows glog's start"},
    {"base/split_mix", "searches of folders that know nothing of each other take their random numbers from it"},
    {"compare/compare", "all that users of the library include"},
    {"device/cuda/cuda_check", "every call of CUDA goes through it"},
    {"device/tf32", "kernels that the host emulates ask it, and may include nothing of CUDA's"},
    {"graph/graph_file_format", "what the writer and the reader of graphs must have in common"},
    {"graph/json_members", "the one header of fields that knows the JSON library"},
    {"graph/node_parts", "what schedules and op cases, which know nothing of each other, mean by parts of a node"},
    {"graph/ops/data_format", "operations and kernels of images share it"},
    {"graph/registration", "what register_family alone calls, and no header for users may declare"},
    {"graph/shared_entry", "what layers ask of SharedVariables, and no header for users may declare"},
    {"kernels/communicator_of", "two kinds of kernels that communicate ask for what they do it by"},
    {"kernels/cuda/unroll", "kernels with and without products of matrices share it"},
    {"kernels/packed_weights", "what transforms ask of kernels of the CPU, whose headers know oneDNN"},
    {"kernels/registration", "what register_family alone calls, and no header for users may declare"},
    {"kernels/stored_element", "what kernels of the CPU and of GPUs mean by a tensor that is stored as f32 or bf16"},
    {"planning/effort",
     "what is worth its time for one search, and for each of many, which know nothing of each other"},
    {"planning/ladder", "the budgets of plans without copies and of those with, which know nothing of each other"},
    {"runtime/pending_half", "two parts of the engine look into it, and the engine's header leaves what it is to them"},
    {"sources/codecs", "what decode_image and two files that know one library each have in common"},
    {"sources/missing_library", "every source that needs a library includes it, and no header for users may"},
    {"sources/sources", "all that users of the library include"},
    {"transform/sort_by_execution_order", "a transform is a file and a row"},
    {"transform/strip_unused_nodes", "a transform is a file and a row"},
};

/// The part that a file belongs to: "base/bytes", or "family unary" for every room of it.
std::string part_of(const SourceFile& file, const std::set<std::string>& families) {
  static const std::set<std::string> rooms = {"graph/ops",   "graph/nodes",  "autodiff/gradients",
                                              "kernels/cpu", "kernels/cuda", "kernels/formulas"};
  const std::filesystem::path path = file.path;
  const std::string name = path.stem().string();
  if (rooms.contains(path.parent_path().generic_string()) && families.contains(name)) return "family " + name;
  return (path.parent_path() / name).generic_string();
}

/// Parts with too few lines and no reason, and reasons that no part needs.
Texts small_parts(const Files& files, const std::set<std::string>& families, const std::set<std::string>& folders,
                  const Reasons& reasons) {
  static const std::set<std::string> extensions = {".h", ".cpp", ".cu", ".cuh"};
  std::map<std::string, std::size_t> lines;
  for (const SourceFile& file : files) {
    if (!folders.contains(file.folder()) || !extensions.contains(file.extension())) continue;
    lines[part_of(file, families)] += lines_of(file.text).size();
  }
  Texts complaints;
  std::set<std::string> needed;
  for (const auto& [part, count] : lines) {
    const std::size_t least = part.starts_with("family ") ? kLeastLinesOfFamily : kLeastLines;
    if (count >= least) continue;
    needed.insert(part);
    if (reasons.contains(part)) continue;
    complaints.push_back(text_of(part, " has ", count, " lines, wanted ", least,
                                 "; join it with what changes together with it, or say here why it stands alone"));
  }
  for (const auto& [part, why] : reasons) {
    if (!needed.contains(part)) complaints.push_back(part + " is no small part: its reason is to go");
  }
  return complaints;
}

std::string lines_of_code(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += "int x;\n";
  return text;
}

TEST(SmallParts, PlantedOnesAreFlagged) {
  const Files halves = {{"base/a.h", lines_of_code(20)}, {"base/a.cpp", lines_of_code(19)}};
  ASSERT_EQ(small_parts(halves, {}, {"base"}, {}).size(), 1U);
  EXPECT_TRUE(small_parts(halves, {}, {"base"}, {})[0].starts_with("base/a has 39 lines, wanted 40"));
  EXPECT_EQ(small_parts(halves, {}, {"graph"}, {}), kNone);
  EXPECT_EQ(small_parts(halves, {}, {"base"}, {{"base/a", "so"}}), kNone);
  EXPECT_EQ(small_parts({{"base/a.h", lines_of_code(20)}, {"base/a.cpp", lines_of_code(20)}}, {}, {"base"}, {}), kNone);
  EXPECT_EQ(
      small_parts({{"base/a.h", lines_of_code(20)}, {"base/b/a.cpp", lines_of_code(20)}}, {}, {"base"}, {}).size(), 2U);
  EXPECT_EQ(small_parts({}, {}, {"base"}, {{"base/a", "so"}}), (Texts{"base/a is no small part: its reason is to go"}));
}

TEST(SmallParts, AFamilyIsOneInAllItsFiles) {
  Files rooms = {{"graph/ops/f.h", lines_of_code(9)},
                 {"graph/ops/f.cpp", lines_of_code(50)},
                 {"autodiff/gradients/f.cpp", lines_of_code(1)},
                 {"kernels/cpu/f.cpp", lines_of_code(60)},
                 {"kernels/cuda/f.cu", lines_of_code(60)},
                 {"kernels/formulas/f.h", lines_of_code(20)}};
  const std::set<std::string> folders = {"graph", "autodiff", "kernels"};
  EXPECT_EQ(small_parts(rooms, {"f"}, folders, {}), kNone);
  EXPECT_EQ(small_parts(rooms, {}, folders, {}).size(), 2U);  // the gradient and the formulas
  rooms.pop_back();
  ASSERT_EQ(small_parts(rooms, {"f"}, folders, {}).size(), 1U);
  EXPECT_TRUE(small_parts(rooms, {"f"}, folders, {})[0].starts_with("family f has 180 lines, wanted 200"));
}

TEST(SmallParts, AreWholePartsOrSayWhyNot) {
  EXPECT_EQ(small_parts(code(), families_of(text_of_file("graph/op_list.inc")), kFolders, kReasons), kNone);
}

}  // namespace
}  // namespace sectionflow::house
