// Who may include whom, and what the headers for users bring along.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/house/source_tree.h"

namespace sectionflow::house {
namespace {

/// Which folders each may include, besides itself.
const std::map<std::string, std::set<std::string>>& may_include() {
  static const std::map<std::string, std::set<std::string>> table = {
      {"base", {}},
      {"comm", {"base"}},
      {"planning", {"base"}},
      {"graph", {"base"}},
      {"device", {"base"}},
      {"data", {"base"}},
      {"sources", {"data", "base"}},
      {"autodiff", {"graph", "base"}},
      {"kernels", {"comm", "device", "graph", "base"}},
      {"extend", {"autodiff", "kernels", "device", "graph", "base"}},
      {"op_case", {"autodiff", "kernels", "device", "graph", "base"}},
      {"schedule", {"kernels", "device", "graph", "base"}},
      {"runtime", {"schedule", "kernels", "comm", "device", "graph", "base"}},
      {"transform", {"runtime", "schedule", "kernels", "device", "graph", "data", "base"}},
      {"swap", {"runtime", "schedule", "comm", "device", "graph", "base"}},
      {"fit", {"planning", "swap", "runtime", "schedule", "device", "graph", "data", "base"}},
      {"sections", {"planning", "fit", "swap", "runtime", "schedule", "autodiff", "graph", "base"}},
      {"train", {"sections", "swap", "runtime", "schedule", "autodiff", "graph", "data", "device", "comm", "base"}},
      {"compare", {"train", "sections", "fit", "swap", "runtime", "schedule", "data", "graph", "base"}},
  };
  return table;
}

/// The headers that are no folder's: they include what users include by them.
bool is_umbrella(const std::string& path) {
  return path == "sectionflow.h" || path == "sectionflow_ops.h";
}

/// Folders that may include everything; so may the umbrellas.
bool may_include_all(const SourceFile& file) {
  static const std::set<std::string> folders = {"examples", "bench", "tools", "tests"};
  return folders.contains(file.folder()) || is_umbrella(file.path);
}

/// The files that a file includes, as they are written between quotes or angle brackets.
Texts includes_of(const SourceFile& file) {
  static const std::regex include(R"re(^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)").*)re");
  Texts included;
  for (const std::string& line : lines_of(file.text)) {
    std::smatch match;
    if (std::regex_match(line, match, include)) included.push_back(match[1].matched ? match[1] : match[2]);
  }
  return included;
}

Texts wrong_folders(const Files& files) {
  Texts complaints;
  for (const SourceFile& file : files) {
    if (may_include_all(file)) continue;
    const auto row = may_include().find(file.folder());
    if (row == may_include().end()) {
      complaints.push_back(file.path + " stands in no folder of the table");
      continue;
    }
    for (const std::string& included : includes_of(file)) {
      const std::string folder = SourceFile{included, ""}.folder();
      const bool is_ours = may_include().contains(folder) || is_umbrella(included) || folder == "examples" ||
                           folder == "bench" || folder == "tools" || folder == "tests" || folder.starts_with('.');
      if (is_ours && folder != file.folder() && !row->second.contains(folder)) {
        complaints.push_back(file.path + " may not include " + included);
      }
    }
  }
  return complaints;
}

/// Writers of instruction lists decide and touch no bytes: of swap and sections those files alone know the runtime that
/// meet a session.
Texts writers_that_execute(const Files& files) {
  static const std::set<std::string> meet_a_session = {"swap/measure_profile.h",
                                                       "swap/measure_profile.cpp",
                                                       "swap/planned_trace.h",
                                                       "swap/planned_trace.cpp",
                                                       "swap/ranked_step.h",
                                                       "swap/ranked_step.cpp",
                                                       "fit/insert_swaps.h",
                                                       "fit/insert_swaps.cpp",
                                                       "fit/fit_budget.h",
                                                       "fit/fit_budget.cpp",
                                                       "fit/program_fitter.h",
                                                       "fit/program_fitter.cpp",
                                                       "fit/replan.cpp",
                                                       "fit/explain.h",
                                                       "fit/explain.cpp",
                                                       "fit/explain_program.cpp",
                                                       "sections/section_dot.cpp",
                                                       "sections/graph_section_manager.h",
                                                       "sections/section_trainer.h",
                                                       "sections/place_cuts.cpp"};
  Texts complaints;
  for (const SourceFile& file : files) {
    const bool writes = file.folder() == "swap" || file.folder() == "fit" || file.folder() == "sections";
    if (!writes || meet_a_session.contains(file.path)) continue;
    for (const std::string& included : includes_of(file)) {
      if (included.starts_with("runtime/")) complaints.push_back(file.path + " may not include " + included);
    }
  }
  return complaints;
}

/// Headers that begin with one of `prefixes` stand in `folders` alone.
Texts strangers_outside(const Files& files, const Texts& prefixes, const std::set<std::string>& folders) {
  Texts complaints;
  for (const SourceFile& file : files) {
    if (folders.contains(file.folder())) continue;
    for (const std::string& included : includes_of(file)) {
      const bool matches = std::any_of(prefixes.begin(), prefixes.end(),
                                       [&](const std::string& prefix) { return included.starts_with(prefix); });
      if (matches) complaints.push_back(file.path + " may not include " + included);
    }
  }
  return complaints;
}
Texts onednn_outside_its_folders(const Files& files) {
  return strangers_outside(files, {"oneapi/dnnl", "dnnl"}, {"device", "kernels", "tests", "bench"});
}
/// Programs that begin MPI by themselves are among the tests.
Texts mpi_outside_its_folder(const Files& files) {
  return strangers_outside(files, {"mpi.h"}, {"comm", "tests"});
}
Texts boost_graph_outside_its_folder(const Files& files) {
  return strangers_outside(files, {"boost/graph/", "boost/property_map/"}, {"graph"});
}

/// What stays, is computed again or is offloaded, `fit` decides, by the planners of `planning` and `swap`. `bench`
/// looks at these by themselves.
Texts other_planners(const Files& files) {
  const Texts planners = {"planning/frontier", "planning/search", "planning/evict",       "planning/offload",
                          "planning/rotor",    "swap/swap_pl",    "swap/search_offloads", "swap/choose_offloads"};
  return strangers_outside(files, planners, {"planning", "swap", "fit", "tests", "bench"});
}

/// Everything that `root` includes of ours, directly or not, and itself.
Files reached_from(const std::string& root, const Files& files) {
  std::map<std::string, const SourceFile*> by_path;
  for (const SourceFile& file : files) by_path[file.path] = &file;
  std::set<std::string> seen = {root};
  Texts todo = {root};
  Files reached;
  while (!todo.empty()) {
    const auto file = by_path.find(todo.back());
    todo.pop_back();
    if (file == by_path.end()) continue;
    reached.push_back(*file->second);
    for (const std::string& included : includes_of(*file->second)) {
      if (seen.insert(included).second) todo.push_back(included);
    }
  }
  return reached;
}

/// Headers for users whose namespace is not exported (base/export.h), or that bring other people's headers along.
Texts wrong_public_headers(const Files& files) {
  static const Texts strangers = {"oneapi/", "dnnl",     "nlohmann/", "boost/",  "glog/",  "zlib.h",
                                  "omp.h",   "xxhash.h", "liburing",  "google/", "lmdb.h", "hdf5.h",
                                  "zip.h",   "png.h",    "jpeglib.h", "mpi.h"};
  static const std::regex unmarked(R"(^namespace sectionflow\b)");
  Files reached = reached_from("sectionflow.h", files);
  for (const std::string root : {"sectionflow_ops.h", "compare/compare.h", "op_case/op_case.h", "sources/sources.h"}) {
    for (const SourceFile& file : reached_from(root, files)) reached.push_back(file);
  }
  Texts complaints = strangers_outside(reached, strangers, {});
  for (const SourceFile& file : reached) {
    for (const std::string& line : lines_of(file.text)) {
      if (std::regex_search(line, unmarked)) complaints.push_back(file.path + " wants 'namespace SF_API sectionflow'");
    }
  }
  return complaints;
}

/// Folders whose sf_add_folder(...) DEPENDS on what the table does not give them.
Texts wrong_dependencies(const Files& files) {
  static const std::regex call(R"re(sf_add_folder\((\w+)\s+DEPENDS((?:\s+[a-z_]+)+))re");
  Texts complaints;
  for (const SourceFile& file : files) {
    std::smatch match;
    if (!std::regex_search(file.text, match, call)) continue;
    const auto row = may_include().find(match[1]);
    std::istringstream words(match[2]);
    for (std::string folder; words >> folder;) {
      if (row == may_include().end() || !row->second.contains(folder)) {
        complaints.push_back(file.path + ": " + match[1].str() + " may not depend on " + folder);
      }
    }
  }
  return complaints;
}

TEST(House, IsFound) {
  std::set<std::string> paths;
  for (const SourceFile& file : code()) paths.insert(file.path);
  for (const auto& [folder, allowed] : may_include()) {
    for (const std::string& other : allowed) EXPECT_TRUE(may_include().contains(other)) << folder;
  }
  EXPECT_GT(code().size(), 100U);
  EXPECT_TRUE(paths.contains("sectionflow.h"));
  EXPECT_TRUE(paths.contains("graph/graph.h"));
  EXPECT_TRUE(paths.contains("graph/op_list.inc"));
  EXPECT_TRUE(paths.contains("tests/house/includes.cpp"));
}

TEST(IncludesOf, ReadsQuotesAndBracketsAndNothingElse) {
  const SourceFile file{"base/a.h",
                        "#pragma once\n#include \"base/b.h\"  // why\n  #  include <vector>\n// #include \"c.h\"\n"
                        "const char* text = \"#include <d.h>\";\n"};
  EXPECT_EQ(includes_of(file), (Texts{"base/b.h", "vector"}));
}

TEST(Folders, PlantedIncludesAreFlagged) {
  const auto complaints = [](const std::string& path, const std::string& included) {
    return wrong_folders({{path, "#include \"" + included + "\"\n"}}).size();
  };
  EXPECT_EQ(complaints("base/a.h", "sections/x.h"), 1U);
  EXPECT_EQ(complaints("base/a.h", "graph/graph.h"), 1U);
  EXPECT_EQ(complaints("graph/ops/a.cpp", "autodiff/gradients.h"), 1U);
  EXPECT_EQ(complaints("kernels/cpu/a.cpp", "runtime/arena.h"), 1U);
  EXPECT_EQ(complaints("runtime/a.cpp", "sections/x.h"), 1U);
  EXPECT_EQ(complaints("schedule/a.cpp", "runtime/arena.h"), 1U);
  EXPECT_EQ(complaints("train/a.cpp", "compare/strategy.h"), 1U);
  EXPECT_EQ(complaints("train/a.cpp", "kernels/kernel.h"), 1U);
  EXPECT_EQ(complaints("graph/a.h", "sectionflow.h"), 1U);
  EXPECT_EQ(complaints("graph/a.h", "tests/support/op_case.h"), 1U);
  EXPECT_EQ(complaints("graph/a.h", "../base/shape.h"), 1U);
  EXPECT_EQ(complaints("attic/a.h", "base/shape.h"), 1U);
  EXPECT_EQ(wrong_folders({{"base/a.h", "#include <graph/graph.h>\n"}}).size(), 1U);
}

TEST(Folders, AllowedIncludesAreNotFlagged) {
  const auto complaints = [](const std::string& path, const std::string& included) {
    return wrong_folders({{path, "#include \"" + included + "\"\n#include <vector>\n#include <sys/mman.h>\n"}});
  };
  EXPECT_EQ(complaints("base/a.h", "base/b.h"), kNone);
  EXPECT_EQ(complaints("train/a.cpp", "data/labeled_images.h"), kNone);
  EXPECT_EQ(complaints("tests/graph/a.cpp", "sections/x.h"), kNone);
  EXPECT_EQ(complaints("sectionflow.h", "train/progress.h"), kNone);
}

TEST(Folders, IncludeOnlyWhatTheTableAllows) {
  EXPECT_EQ(wrong_folders(code()), kNone);
}

TEST(Folders, DependInCMakeOnlyOnWhatTheTableAllows) {
  EXPECT_EQ(wrong_dependencies({{"base/CMakeLists.txt", "sf_add_folder(base DEPENDS graph LIBRARIES x)\n"}}).size(),
            1U);
  EXPECT_EQ(wrong_dependencies({{"swap/CMakeLists.txt", "sf_add_folder(swap DEPENDS base kernels)\n"}}).size(), 1U);
  EXPECT_EQ(wrong_dependencies({{"swap/CMakeLists.txt", "sf_add_folder(swap DEPENDS runtime base)\n"}}), kNone);
  const Files lists = tree({".txt"});
  EXPECT_GT(lists.size(), may_include().size() - 1);
  EXPECT_EQ(wrong_dependencies(lists), kNone);
}

TEST(Folders, WritersOfInstructionListsKnowNoRuntime) {
  const auto complaints = [](const std::string& path) {
    return writers_that_execute({{path, "#include \"runtime/session.h\"\n#include \"schedule/schedule.h\"\n"}}).size();
  };
  EXPECT_EQ(complaints("swap/swap_planner.cpp"), 1U);
  EXPECT_EQ(complaints("sections/section_schedule.h"), 1U);
  EXPECT_EQ(complaints("fit/insert_swaps.h"), 0U);
  EXPECT_EQ(complaints("train/checkpoint.h"), 0U);
  EXPECT_EQ(writers_that_execute(code()), kNone);
}

TEST(OneDnn, HeadersStandInDeviceAndKernelsAlone) {
  EXPECT_EQ(onednn_outside_its_folders({{"runtime/a.cpp", "#include <oneapi/dnnl/dnnl.hpp>\n"}}).size(), 1U);
  EXPECT_EQ(onednn_outside_its_folders({{"graph/a.h", "#include \"dnnl.hpp\"\n"}}).size(), 1U);
  EXPECT_EQ(onednn_outside_its_folders({{"kernels/cpu/a.cpp", "#include <oneapi/dnnl/dnnl.hpp>\n"}}), kNone);
  EXPECT_EQ(onednn_outside_its_folders(code()), kNone);
}

TEST(Planners, AreAskedByFitAlone) {
  EXPECT_EQ(other_planners({{"sections/a.cpp", "#include \"swap/swap_planner.h\"\n"}}).size(), 1U);
  EXPECT_EQ(other_planners({{"sections/a.cpp", "#include \"planning/frontier.h\"\n"}}).size(), 1U);
  EXPECT_EQ(other_planners({{"fit/a.cpp", "#include \"planning/frontier.h\"\n"}}), kNone);
  EXPECT_EQ(other_planners({{"sections/a.cpp", "#include \"planning/cuts.h\"\n"}}), kNone);
  EXPECT_EQ(other_planners(code()), kNone);
}

TEST(Mpi, HeadersStandInCommAndInTests) {
  EXPECT_EQ(mpi_outside_its_folder({{"runtime/a.cpp", "#include <mpi.h>\n"}}).size(), 1U);
  EXPECT_EQ(mpi_outside_its_folder({{"comm/mpi/a.h", "#include <mpi.h>\n"}}), kNone);
  EXPECT_EQ(mpi_outside_its_folder(code()), kNone);
}

TEST(BoostGraph, HeadersStandInGraphAlone) {
  EXPECT_EQ(boost_graph_outside_its_folder({{"sections/a.cpp", "#include <boost/graph/graphviz.hpp>\n"}}).size(), 1U);
  EXPECT_EQ(boost_graph_outside_its_folder({{"graph/a.cpp", "#include <boost/graph/graphviz.hpp>\n"}}), kNone);
  EXPECT_EQ(boost_graph_outside_its_folder(code()), kNone);
}

TEST(PublicHeaders, AreExportedAndBringNoOthersAlong) {
  const auto complaints = [](const std::string& inner) {
    return wrong_public_headers({{"sectionflow.h", "#include \"graph/a.h\"\n"},
                                 {"graph/a.h", "#include \"graph/b.h\"\nnamespace SF_API sectionflow {}\n"},
                                 {"graph/b.h", inner + "#include \"graph/a.h\"\n"},
                                 {"graph/inner.h", "#include <glog/logging.h>\nnamespace sectionflow {}\n"}});
  };
  EXPECT_EQ(complaints("namespace SF_API sectionflow {}\n"), kNone);
  EXPECT_EQ(complaints("namespace sectionflow {}\n"), (Texts{"graph/b.h wants 'namespace SF_API sectionflow'"}));
  EXPECT_EQ(complaints("#include <nlohmann/json.hpp>\n"), (Texts{"graph/b.h may not include nlohmann/json.hpp"}));
  EXPECT_GT(reached_from("sectionflow.h", code()).size(), 40U);
  EXPECT_EQ(wrong_public_headers(code()), kNone);
}

}  // namespace
}  // namespace sectionflow::house
