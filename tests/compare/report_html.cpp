#include "compare/report_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "base/bytes.h"
#include "base/error.h"
#include "base/svg.h"
#include "compare/timeline_picture.h"
#include "runtime/engine.h"
#include "tests/support/random_offloads.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_model.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// What is not closed, or closed and not open, in a page whose tags are all closed but for <meta> and <br>.
std::string unbalanced(const std::string& html) {
  const std::regex tag(R"(<(/?)([a-z0-9]+)([^<>]*?)(/?)>)", std::regex::icase);
  std::vector<std::string> open;
  for (std::sregex_iterator found(html.begin(), html.end(), tag), end; found != end; ++found) {
    const std::string name = (*found)[2];
    if (name == "meta" || name == "br" || (*found)[4] == "/") continue;
    if ((*found)[1] != "/") {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "closed: " + name + " where open is " + (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "open: " + open.back();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Where the budget is drawn, from the top of its picture; each picture once.
std::vector<double> budget_lines(const std::string& html) {
  const std::regex line(
      text_of("<line x1=\"6\" y1=\"([0-9.]+)\" x2=\"394\" y2=\"([0-9.]+)\" style=\"stroke:", kBudgetColour));
  std::vector<double> heights;
  for (std::sregex_iterator found(html.begin(), html.end(), line), end; found != end; ++found) {
    EXPECT_EQ((*found)[1], (*found)[2]);
    heights.push_back(std::stod((*found)[1]));
  }
  return heights;
}

Comparison compared() {
  Strategy swapping = tiny_strategy("swap<ping> & \"more\"", 3);
  swapping.edit_session = [](Session& session) {
    engine(session).set_instruction_editor("test", [](InstructionList list, PlanningTools& tools) {
      return offload_at_random(list, tools, 3, 0.7, true);
    });
  };
  CompareOptions options{.model = "tiny <model>", .steps = 2};
  options.session = {.device_memory = 0, .disk = 4_MiB, .threads = 1, .seed = 3};
  options.batch = [](std::int64_t step) { return tiny_batch(step); };
  const std::vector<Strategy> strategies = {tiny_strategy("whole", 0), tiny_strategy("sections:3", 3), swapping};
  const Comparison roomy = compare_strategies(strategies, options);
  // Enough for all but the whole graph.
  options.session.device_memory =
      std::max(roomy.strategies[1].planned_peak_bytes, roomy.strategies[2].planned_peak_bytes);
  options.reference = strategies[0];
  return compare_strategies(strategies, options);
}

class ReportHtml : public testing::Test {
 protected:
  static void SetUpTestSuite() { comparison_ = new Comparison(compared()); }
  static void TearDownTestSuite() { delete comparison_; }
  static Comparison* comparison_;
};
Comparison* ReportHtml::comparison_ = nullptr;

TEST_F(ReportHtml, IsOneWellFormedPage) {
  const std::string html = report_html(*comparison_);
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(unbalanced(html), "");
  EXPECT_THAT(html, HasSubstr("<meta name=\"viewport\""));
  EXPECT_THAT(html, HasSubstr("@media print"));
  // Nothing from elsewhere, no scripts; the one address is the name of SVG.
  EXPECT_THAT(html, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("<link")), Not(HasSubstr("src=")),
                          Not(HasSubstr("href=")), Not(HasSubstr("url("))));
  EXPECT_EQ(count(html, "http"), count(html, "xmlns=\"http://www.w3.org/2000/svg\""));
}

TEST_F(ReportHtml, ShowsEveryStrategyAndEscapesNames) {
  const std::string html = report_html(*comparison_);
  EXPECT_EQ(count(html, "<figure>"), 3u) << "the reference is one of them by name";
  EXPECT_EQ(count(html, "</svg>\n</figure>"), 3u);
  for (const char* name : {"whole", "sections:3", "swap&lt;ping&gt; &amp; &quot;more&quot;"}) {
    EXPECT_THAT(html, HasSubstr(text_of("<h3>", name, "</h3>")));
    EXPECT_THAT(html, HasSubstr(text_of("<td>", name, "</td>")));
  }
  EXPECT_THAT(html,
              AllOf(HasSubstr("tiny &lt;model&gt;"), Not(HasSubstr("tiny <model>")), Not(HasSubstr("swap<ping>"))));
  EXPECT_THAT(html, HasSubstr("whole, unlimited"));
  EXPECT_THAT(html, HasSubstr("does not fit: "));
}

TEST_F(ReportHtml, TheReferenceHasAPictureWhereNoStrategyIsThat) {
  Comparison without = *comparison_;
  without.strategies.erase(without.strategies.begin());
  EXPECT_EQ(count(report_html(without), "<figure>"), 3u);
}

TEST_F(ReportHtml, TheBudgetLineIsAtTheHeightOfTheBudget) {
  const std::string html = report_html(*comparison_);
  const std::size_t top = comparison_->strategies[0].timeline.device_peak_bytes;
  const double expected = device_height({.device_bytes = top}, comparison_->budgets.device);
  const std::vector<double> heights = budget_lines(html);
  ASSERT_EQ(heights.size(), 3u) << "one in each picture";
  for (const double height : heights) EXPECT_NEAR(height, expected, 0.01);
  EXPECT_GT(expected, device_height({.device_bytes = top}, top));
  EXPECT_LT(expected, device_height({.device_bytes = top}, 0));
  EXPECT_NEAR(device_height({.device_bytes = 100}, 25),
              device_height({.device_bytes = 100}, 0) * 0.75 + device_height({.device_bytes = 100}, 100) * 0.25, 1e-9);
}

TEST_F(ReportHtml, ABudgetFarAboveIsSaidInWords) {
  Comparison roomy = *comparison_;
  roomy.budgets.device = 1_GiB;
  const std::string html = report_html(roomy);
  EXPECT_TRUE(budget_lines(html).empty());
  EXPECT_EQ(count(html, "budget 1.00 GiB, above this picture"), 3u);
  roomy.device_limited = false;
  EXPECT_EQ(count(report_html(roomy), "budget 1.00 GiB"), 0u);
}

TEST_F(ReportHtml, CopiesHaveRowsBarsAndArcs) {
  const std::string html = report_html(*comparison_);
  for (const char* row : {">copy out</text>", ">copy in</text>", ">to disk</text>", ">from disk</text>"})
    EXPECT_EQ(count(html, row), 1u) << row;
  EXPECT_EQ(count(html, ">compute</text>"), 3u);
  const auto& bars = comparison_->strategies[2].timeline.bars;
  const auto copies = static_cast<std::size_t>(std::count_if(
      bars.begin(), bars.end(), [](const MemoryTimeline::Bar& bar) { return bar.kind == StepKind::copy_in; }));
  EXPECT_EQ(count(html, "Q"), std::min<std::size_t>(copies, 60)) << "arcs";
  EXPECT_GT(copies, 0u);
}

TEST_F(ReportHtml, PathsOfTheMachineDoNotShow) {
  const TemporaryFolder folder;
  const std::string target = (folder.path() / "deep" / "report").string();
  write_report(*comparison_, target);
  std::ifstream file(target + "/index.html");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), report_html(*comparison_));
  EXPECT_THAT(text.str(),
              AllOf(Not(HasSubstr(folder.path().string())), Not(HasSubstr(std::filesystem::current_path().string())),
                    Not(HasSubstr("/tmp")), Not(HasSubstr("/home"))));
}

TEST_F(ReportHtml, AFolderThatCannotBeIsRefused) {
  const TemporaryFolder folder;
  folder.file("file", "in the way");
  EXPECT_THROW(write_report(*comparison_, (folder.path() / "file" / "report").string()), DataError);
}

TEST_F(ReportHtml, LargestSizesHaveATable) {
  Comparison with = *comparison_;
  with.largest = {{.what = "batch", .strategies = {{.name = "whole", .size = 7, .ratio = 1, .next_misfit = {}}}}};
  const std::string html = report_html(with);
  EXPECT_EQ(unbalanced(html), "");
  EXPECT_THAT(html, AllOf(HasSubstr("Largest batch within the budgets"), HasSubstr("<td>7</td>")));
}

TEST_F(ReportHtml, TimeAgainstMemoryIsAPictureWithTheStrategiesInIt) {
  EXPECT_THAT(report_html(*comparison_), Not(HasSubstr("Time against device memory")));
  Comparison with = *comparison_;
  with.frontier = {.whole_seconds = 0.1,
                   .whole_peak_bytes = 2_MiB,
                   .working_set_bytes = 1_MiB,
                   .points = {{.budget_bytes = 1_MiB, .fits = true, .seconds = 0.12, .bound_seconds = 0.11},
                              {.budget_bytes = 2_MiB, .fits = true, .seconds = 0.1, .bound_seconds = 0.1}}};
  const std::string html = report_html(with);
  EXPECT_EQ(unbalanced(html), "");
  EXPECT_THAT(html,
              AllOf(HasSubstr("Time against device memory"), HasSubstr("1.00 MiB: 20.00 %, no plan below 10.00 %")));
  int marked = 0;
  for (const StrategyResult& result : with.strategies) {
    if (!result.fits) continue;
    EXPECT_THAT(html, HasSubstr(">" + xml_escaped(result.name) + "</text>"));
    ++marked;
  }
  EXPECT_GT(marked, 0);
  EXPECT_THAT(with.text(), HasSubstr("nothing runs below 1.00 MiB"));
}

}  // namespace
}  // namespace sectionflow
