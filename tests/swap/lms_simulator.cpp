// Figures of the simulator and of the search for parameters, from their rules.

#include "swap/lms_simulator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "swap/lms_plots.h"
#include "swap/lms_tuner.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/swap/lms_graphs.h"

namespace sectionflow {
namespace {

using namespace testing_support;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

/// A graph with everything that a simulation needs.
struct Stage {
  explicit Stage(NamedGraph& g, std::size_t budget = SIZE_MAX, LmsOptions options = {})
      : view(g.graph, options),
        levels(lms_levels(g.graph)),
        log(false, 1),
        simulator(view, levels, log, budget, SIZE_MAX) {}
  std::size_t peak(const LmsParameters& parameters) { return simulator.simulate(parameters).peak_bytes; }

  LmsGraph view;
  LmsLevels levels;
  LmsLog log;
  LmsSimulator simulator;
};

/// Without the variable and its initial value, which stand beside the chain.
void build_pure_chain(NamedGraph& g, int length) {
  Value x = g.input();
  for (int k = 1; k <= length; ++k) x = g.add(text_of("f", k), relu(x));
  x = g.add("L", relu(x));
  for (int k = length; k >= 1; --k) {
    x = g.add(text_of("b", k), sectionflow::add(x, g.at(text_of("f", k))));
  }
  relu(x);
}

TEST(LmsSimulator, WithoutSwapsCountsWhatIsStillToBeRead) {
  NamedGraph g;
  build_pure_chain(g, 4);
  Stage stage(g);
  // f1 to f4 and L stay while b4 is written: six tensors of 100 bytes.
  EXPECT_EQ(stage.peak({stage.levels.count(), 1, 0, 0}), 600U);
  // One tensor less, and one that stays, where the second half is shorter.
  NamedGraph shorter;
  build_pure_chain(shorter, 1);
  Stage small(shorter);
  EXPECT_EQ(small.peak({small.levels.count(), 1, 0, 0}), 300U);
}

TEST(LmsSimulator, SwappingAllIsWhatAReaderNeeds) {
  NamedGraph g;
  build_pure_chain(g, 4);
  Stage stage(g);
  // A reader b_k has b_k+1, f_k again and its own result: 300 bytes. In sync the copy of f_k-1 joins when b_k is done
  // and b_k+1 and f_k are gone: 200.
  EXPECT_EQ(stage.peak({1, 1, 0, 3}), 300U);
  EXPECT_EQ(stage.peak({1, 1, 0, 2}), 300U);
  const LmsSimulation simulation = stage.simulator.simulate({1, 1, 0, 3});
  EXPECT_EQ(simulation.host_peak_bytes, 400U);
  // An ahead of 1 brings a copy one node earlier, while another reader is at work: one tensor more.
  EXPECT_EQ(stage.peak({1, 1, 0, 0}), 400U);
}

TEST(LmsSimulator, ARequestForAllThatIsFreeIsRefused) {
  NamedGraph g;
  build_pure_chain(g, 4);
  const LmsParameters none{100, 1, 0, 0};
  EXPECT_FALSE(Stage(g, 600).simulator.simulate(none).fits);
  EXPECT_TRUE(Stage(g, 601).simulator.simulate(none).fits);
}

TEST(LmsSimulator, GroupsShareACopyAndHostMemory) {
  NamedGraph g;
  build_fan(g);
  Stage stage(g);
  // a leaves after n1 has read it. One copy a reader or one for all: the second is offloaded from n1 to n12.
  EXPECT_EQ(stage.simulator.simulate({1, 1, 0, 3}).host_peak_bytes, 100U);
  EXPECT_EQ(stage.peak({1, 1, 0, 3}), 300U);
  EXPECT_EQ(stage.peak({1, 1, 9, 0}), 300U);
  EXPECT_EQ(stage.peak({stage.levels.count(), 1, 0, 0}), 300U);
}

TEST(LmsSimulator, TrainableVariablesAreNotCounted) {
  const auto peak = [](bool trainable) {
    NamedGraph g;
    const Value v = variable("v", fill(g.graph, {5, 5}, 1), {.trainable = trainable});
    relu(relu(v));
    Stage stage(g);
    EXPECT_EQ(stage.view.parameter_bytes(), trainable ? 100U : 0U);
    return stage.peak({100, 1, 0, 0});
  };
  EXPECT_EQ(peak(true), 100U);
  EXPECT_EQ(peak(false), 200U);
}

TEST(LmsSimulator, UnknownDimensionsAreTheBatchSizeOrOne) {
  NamedGraph g;
  const Value x = g.input({kDynamic, 5, kDynamic});
  relu(x);
  LmsOptions options;
  EXPECT_EQ(LmsGraph(g.graph, options).bytes(x), 5U * 4);
  options.batch_size = 7;
  EXPECT_EQ(LmsGraph(g.graph, options).bytes(x), 7U * 5 * 4);
}

TEST(LmsSimulator, NoSettingNeedsLessThanTheLeastBudget) {
  NamedGraph g;
  build_pure_chain(g, 5);
  Stage stage(g);
  const std::size_t least = least_budget(stage.simulator);
  for (int mode = 0; mode <= 3; ++mode) {
    for (int threshold = 1; threshold <= stage.levels.count(); ++threshold) {
      for (int ahead = 1; ahead <= 6; ++ahead) {
        for (int groupby = 0; groupby <= 3; ++groupby) EXPECT_GE(stage.peak({threshold, ahead, groupby, mode}), least);
      }
    }
  }
}

// ---- The search.

/// The options under which the simulation has exactly this budget.
LmsOptions with_budget(std::size_t bytes, LmsOptions options = {}) {
  options.autotune_gpu_mem = (static_cast<double>(bytes) + 0.5) / 0.9 / kGiB;
  return options;
}

TEST(LmsTuner, SaysThatSwappingIsNotNecessary) {
  NamedGraph g;
  build_pure_chain(g, 4);
  const std::string before = text_of_graph(g.graph);
  const LmsResult result = Lms(with_budget(601)).run(g.graph);
  EXPECT_TRUE(result.not_necessary);
  EXPECT_EQ(result.budget_bytes, 601U);
  EXPECT_EQ(result.swapout_threshold, result.num_levels);
  EXPECT_EQ(text_of_graph(g.graph), before);
  EXPECT_TRUE(contains(result.log.back(), "ms"));
}

TEST(LmsTuner, FindsTheLargestThresholdThatFits) {
  for (std::size_t budget = 301; budget <= 600; budget += 100) {
    NamedGraph g;
    build_pure_chain(g, 4);
    Stage stage(g, budget);
    int largest = 0, mode = 0;
    for (; largest == 0 && mode <= 3; ++mode) {
      for (int threshold = 1; threshold <= stage.levels.count(); ++threshold) {
        if (stage.simulator.simulate({threshold, 1, 0, mode}).fits) largest = threshold;
      }
    }
    const LmsResult result = Lms(with_budget(budget)).run(g.graph);
    EXPECT_EQ(result.swapout_threshold, largest) << budget;
    EXPECT_EQ(result.sync_mode, mode - 1) << budget;
    EXPECT_TRUE(result.fits);
    EXPECT_LT(result.simulated_peak_bytes, budget);
    EXPECT_GT(result.num_swap_outs, 0);
  }
}

TEST(LmsTuner, TheFoundSettingFits) {
  for (const std::size_t budget : {401, 501}) {
    NamedGraph g;
    build_pure_chain(g, 4);
    Stage stage(g, budget);
    const LmsResult result = Lms(with_budget(budget)).run(g.graph);
    const LmsParameters found{result.swapout_threshold, std::max(1, result.swapin_ahead),
                              std::max(0, result.swapin_groupby), result.sync_mode};
    EXPECT_TRUE(stage.simulator.simulate(found).fits) << budget;
    // A larger ahead may fit again where no control operation is left to be found; it is not what is wanted.
    EXPECT_TRUE(result.sync_mode >= 2 || result.num_prefetched > 0) << budget;
  }
}

TEST(LmsTuner, RefusesWhatFitsUnderNoSetting) {
  NamedGraph g;
  build_pure_chain(g, 4);
  try {
    Lms(with_budget(300)).run(g.graph);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.code(), ErrorCode::lms_tuning);
    EXPECT_TRUE(contains(error.what(), "it needs more than 300 B")) << error.what();
  }
}

/// Settings that the search may name, tried one by one.
bool any_fits(Stage& stage, const LmsOptions& options) {
  const int count = stage.levels.count();
  const auto range = [](int given, int first, int last) {
    return given < 0 ? std::pair(first, last) : std::pair(given, given);
  };
  const auto [t0, t1] = range(options.swapout_threshold, 1, count);
  const auto [a0, a1] = range(options.swapin_ahead, 1, count);
  const auto [g0, g1] = range(options.swapin_groupby, 0, count);
  for (int mode = options.sync_mode; mode <= 3; ++mode) {
    for (int t = t0; t <= t1; ++t) {
      for (int a = a0; a <= a1; ++a) {
        for (int b = g0; b <= g1; ++b) {
          if (stage.simulator.simulate({t, a, b, mode}).fits) return true;
        }
      }
    }
  }
  return false;
}

/// A graph of random chains and far readers with tensors of different sizes.
void build_random(NamedGraph& g, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  const auto draw = [&](std::uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
  };
  std::vector<std::vector<Value>> of_width(3);
  for (std::int64_t width : {5, 10, 20}) {
    of_width[static_cast<std::size_t>(width == 5 ? 0 : width / 10)].push_back(
        relu(placeholder(g.graph, text_of("in", width), {5, width})));
  }
  for (int i = 0; i < 18; ++i) {
    auto& values = of_width[draw(3)];
    const Value near = values.back(), far = values[draw(values.size())];
    values.push_back(draw(2) == 0 ? relu(near) : sectionflow::add(near, far));
  }
}

// The ancestor's binary searches miss settings where fitting is not monotone; ours finds one whenever there is one.
TEST(LmsTuner, FindsASettingWheneverThereIsOne) {
  int fitted = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    NamedGraph probe;
    build_random(probe, seed);
    Stage unlimited(probe);
    const std::size_t least = least_budget(unlimited.simulator), most = unlimited.peak({100, 1, 0, 0});
    for (std::size_t budget = least - 99; budget <= most; budget += 100) {
      NamedGraph g;
      build_random(g, seed);
      Stage stage(g, budget);
      const bool exists = any_fits(stage, {});
      const std::string before = text_of_graph(g.graph);
      try {
        const LmsResult result = Lms(with_budget(budget)).run(g.graph);
        EXPECT_TRUE(exists) << seed << " " << budget;
        EXPECT_LT(result.simulated_peak_bytes, budget);
        ++fitted;
      } catch (const ArgumentError& error) {
        EXPECT_EQ(error.code(), ErrorCode::lms_tuning);
        EXPECT_FALSE(exists) << seed << " " << budget << " " << error.what();
        EXPECT_EQ(text_of_graph(g.graph), before);
        ++refused;
      }
    }
  }
  EXPECT_GT(fitted, 40);
  EXPECT_GT(refused, 20);
}

TEST(LmsTuner, FindsTheOthersWhereTheThresholdIsGiven) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    NamedGraph probe;
    build_random(probe, seed);
    Stage unlimited(probe);
    const std::size_t least = least_budget(unlimited.simulator);
    for (std::size_t budget = least + 1; budget < least + 600; budget += 100) {
      LmsOptions options = with_budget(budget);
      options.swapout_threshold = 2;
      NamedGraph g;
      build_random(g, seed);
      Stage stage(g, budget);
      const LmsResult result = Lms(options).run(g.graph);
      EXPECT_EQ(result.fits, any_fits(stage, options)) << seed << " " << budget;
      EXPECT_TRUE(result.fits || result.sync_mode == 3);
      EXPECT_EQ(result.swapout_threshold, 2);
    }
  }
}

TEST(LmsTuner, GivenThresholdAndSyncedSwapInsNeedNoSearch) {
  EXPECT_FALSE(wants_tuning({.swapout_threshold = 3, .sync_mode = 2}));
  EXPECT_TRUE(wants_tuning({.swapout_threshold = 3, .sync_mode = 1}));
  EXPECT_TRUE(wants_tuning({.sync_mode = 3}));
  EXPECT_TRUE(wants_tuning({.swapout_threshold = 3, .swapin_ahead = 1}));
  EXPECT_FALSE(wants_tuning({.swapout_threshold = 3, .swapin_groupby = 0, .swapin_ahead = 1}));
}

TEST(LmsTuner, WantsTheBatchSize) {
  NamedGraph g;
  relu(relu(g.input({kDynamic, 5})));
  try {
    Lms().run(g.graph);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ArgumentError& error) {
    EXPECT_TRUE(contains(error.what(), "SF-E112")) << error.what();
    EXPECT_TRUE(contains(error.what(), "placeholder 'in' is f32[?,5]")) << error.what();
  }
  EXPECT_TRUE(Lms({.batch_size = 3}).run(g.graph).not_necessary);
}

TEST(LmsTuner, TheRatioComesFromTheEnvironment) {
  const auto budget = [] {
    NamedGraph g;
    build_pure_chain(g, 2);
    return Lms({.autotune_gpu_mem = 1}).run(g.graph).budget_bytes;
  };
  EXPECT_EQ(budget(), static_cast<std::size_t>(0.9 * kGiB));
  setenv("DDL_OPTIONS", "", 1);
  EXPECT_EQ(budget(), static_cast<std::size_t>(0.8 * kGiB));
  setenv("TF_LMS_SIMULATOR_MEM_RATIO", "0.5", 1);
  EXPECT_EQ(budget(), static_cast<std::size_t>(0.5 * kGiB));
  unsetenv("TF_LMS_SIMULATOR_MEM_RATIO");
  unsetenv("DDL_OPTIONS");
}

TEST(LmsTuner, WarnsWhenTheHostIsTooSmall) {
  NamedGraph g;
  const Value x = g.input({1024, 1024});
  Value y = relu(x);
  std::vector<Value> kept = {y};
  for (int i = 0; i < 3; ++i) kept.push_back(y = relu(y));
  for (auto value = kept.rbegin(); value != kept.rend(); ++value) y = sectionflow::add(relu(y), *value);
  setenv("TF_GPU_HOST_MEM_LIMIT_IN_MB", "6", 1);
  const LmsResult result = Lms({.swapout_threshold = 1, .sync_mode = 3}).run(g.graph);
  unsetenv("TF_GPU_HOST_MEM_LIMIT_IN_MB");
  EXPECT_TRUE(result.host_warning);
  const std::size_t needed = (result.host_bytes + (1U << 20) - 1) >> 20;
  const std::string wanted = text_of("set TF_GPU_HOST_MEM_LIMIT_IN_MB to at least ", needed);
  EXPECT_TRUE(std::any_of(result.log.begin(), result.log.end(),
                          [&](const std::string& line) { return contains(line, wanted); }));
}

// ---- Files.

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(LmsPlots, HistogramCountsPairsByDistance) {
  const TemporaryFolder folder;
  NamedGraph g;
  build_fan(g);
  LmsOptions options{.swapout_threshold = 1, .swapin_groupby = 0, .swapin_ahead = 1, .autotune_plot = true};
  options.plot_directory = (folder.path() / "deep" / ".lms").string();
  Lms(options).run(g.graph);
  // in -> a and twelve of the chain; a -> n3, n4, n8 and n12.
  EXPECT_EQ(content_of(options.plot_directory + "/distance_histogram.tsv"),
            "#distance\tfrequency\n1\t13\n3\t1\n4\t1\n8\t1\n12\t1\n");
  EXPECT_TRUE(contains(content_of(options.plot_directory + "/distance_histogram.svg"), "</svg>"));
}

TEST(LmsPlots, EveryProbeOfTheSearchIsDrawn) {
  const TemporaryFolder folder;
  NamedGraph g;
  build_pure_chain(g, 4);
  LmsOptions options = with_budget(501);
  options.autotune_plot = true;
  options.plot_directory = (folder.path() / ".lms").string();
  const LmsResult result = Lms(options).run(g.graph);
  const std::string plain = content_of(options.plot_directory + "/nolms_simulator_mem_traces.svg");
  EXPECT_TRUE(contains(plain, "<polyline points=\"")) << plain;
  EXPECT_TRUE(contains(plain, "swapped to the host, 1e9 bytes"));
  EXPECT_TRUE(contains(plain, "device memory, 1e9 bytes"));
  const std::string first =
      options.plot_directory +
      "/tflms_simulator_mem_traces_swapout_threshold1_swapin_ahead1_swapin_groupby0_sync_mode0.svg";
  EXPECT_TRUE(contains(content_of(first), "</svg>"));
  EXPECT_TRUE(result.tuned);
}

TEST(LmsPlots, AFolderThatCannotBeWrittenIsToldAndChangesNothing) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "no folder";
  NamedGraph g;
  build_fan(g);
  const std::string before = text_of_graph(g.graph);
  LmsOptions options{.swapout_threshold = 1, .swapin_groupby = 0, .swapin_ahead = 1, .autotune_plot = true};
  options.plot_directory = (folder.path() / "file").string();
  EXPECT_THROW(Lms(options).run(g.graph), DataError);
  EXPECT_EQ(text_of_graph(g.graph), before);
}

}  // namespace
}  // namespace sectionflow
