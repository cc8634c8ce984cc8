#include "swap/lms_plots.h"

#include <algorithm>
#include <filesystem>

#include "base/whole_file.h"

namespace sectionflow {
namespace {

constexpr double kWidth = 900, kChartHeight = 240, kLeft = 80, kTop = 40, kGap = 60;

/// Writes one picture into LmsOptions::plot_directory.
void write_file(const std::string& directory, const std::string& name, const std::string& text) {
  write_whole_file_in(directory, name, text, "Lms, plot_directory");
}

std::string number(double value) {
  return decimals(value, 1);
}

std::string svg(double height, const std::string& body) {
  return text_of(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", number(kWidth), "\" height=\"", number(height),
      "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n", body,
      "</svg>\n");
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return text_of("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\">", text, "</text>\n");
}

/// One curve of bytes with its axes, its top at `top`; `limit` is drawn as a line where it is not 0.
std::string chart(double top, const std::string& title, const std::vector<std::size_t>& bytes, std::size_t limit) {
  std::size_t highest = std::max<std::size_t>(limit, 1);
  for (std::size_t value : bytes) highest = std::max(highest, value);
  const double width = kWidth - kLeft - 20, bottom = top + kChartHeight;
  const auto y_of = [&](std::size_t value) {
    return bottom - kChartHeight * static_cast<double>(value) / static_cast<double>(highest);
  };
  std::string points;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const double x =
        kLeft + width * static_cast<double>(i) / static_cast<double>(std::max<std::size_t>(bytes.size() - 1, 1));
    points += text_of(i == 0 ? "" : " ", number(x), ",", number(y_of(bytes[i])));
  }
  std::string text = label(kLeft, top - 8, "start", title);
  text += text_of("<path d=\"M", number(kLeft), " ", number(top), "V", number(bottom), "H", number(kLeft + width),
                  "\" fill=\"none\" stroke=\"black\"/>\n");
  text += label(kLeft - 6, top + 10, "end", decimals(static_cast<double>(highest) / 1e9, 3));
  text += label(kLeft - 6, bottom, "end", "0");
  text += label(kLeft + width, bottom + 16, "end", text_of("allocation or release ", bytes.size()));
  text += text_of("<polyline points=\"", points, "\" fill=\"none\" stroke=\"#1f77b4\"/>\n");
  if (limit != 0) {
    text += text_of("<path d=\"M", number(kLeft), " ", number(y_of(limit)), "H", number(kLeft + width),
                    "\" stroke=\"#d62728\" stroke-dasharray=\"6 3\"/>\n");
  }
  return text;
}

}  // namespace

std::map<int, int> edge_distances(const Graph& graph, const LmsLevels& levels) {
  std::map<int, int> count;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    std::set<NodeId> producers;
    for (const Value& input : graph.node(id).inputs()) producers.insert(input.node().id());
    for (NodeId producer : producers) ++count[levels.distance(producer, id)];
  }
  return count;
}

std::string write_distance_histogram(const std::string& directory, const std::map<int, int>& distances) {
  std::string lines = "#distance\tfrequency\n", bars;
  int highest = 1, farthest = 1;
  for (const auto& [distance, frequency] : distances) {
    lines += text_of(distance, "\t", frequency, "\n");
    highest = std::max(highest, frequency);
    farthest = std::max(farthest, distance);
  }
  const double width = kWidth - kLeft - 20, bottom = kTop + kChartHeight, step = width / (farthest + 1);
  for (const auto& [distance, frequency] : distances) {
    const double height = kChartHeight * frequency / highest;
    bars += text_of("<rect x=\"", number(kLeft + step * distance), "\" y=\"", number(bottom - height), "\" width=\"",
                    number(std::max(1.0, step - 1)), "\" height=\"", number(height), "\" fill=\"#1f77b4\"/>\n");
  }
  bars += label(kLeft, kTop - 8, "start", "edges by distance in levels");
  bars += label(kLeft - 6, kTop + 10, "end", text_of(highest));
  bars += label(kLeft + width, bottom + 16, "end", text_of("distance ", farthest));
  write_file(directory, "distance_histogram.tsv", lines);
  write_file(directory, "distance_histogram.svg", svg(bottom + kGap, bars));
  return (std::filesystem::path(directory) / "distance_histogram.tsv").string();
}

void write_memory_plot(const std::string& directory, const LmsParameters& parameters, bool without_swaps,
                       const LmsTrace& trace, std::size_t budget_bytes) {
  const std::string stem = without_swaps ? std::string("nolms_simulator_mem_traces")
                                         : text_of("tflms_simulator_mem_traces_swapout_threshold", parameters.threshold,
                                                   "_swapin_ahead", parameters.ahead, "_swapin_groupby",
                                                   parameters.groupby, "_sync_mode", parameters.sync_mode);
  const double second = kTop + kChartHeight + kGap;
  write_file(
      directory, stem + ".svg",
      svg(second + kChartHeight + kGap, chart(kTop, "swapped to the host, 1e9 bytes", trace.host, 0) +
                                            chart(second, "device memory, 1e9 bytes", trace.device, budget_bytes)));
}

}  // namespace sectionflow
