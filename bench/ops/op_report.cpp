#include "bench/ops/op_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/text_table.h"
#include "bench/median.h"

namespace sectionflow::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string giga(double number) {
  return decimal_text(number / 1e9, 1);
}

std::string share(double share) {
  return decimal_text(100 * share, 0) + " %";
}

/// "12.3 GB/s (11.9 to 12.5)": the median over the cases and their range.
std::string range_text(const std::vector<double>& rates, const std::string& unit) {
  std::string text = giga(median(rates)) + " " + unit;
  const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
  return rates.size() == 1 ? text : text + " (" + giga(*least) + " to " + giga(*most) + ")";
}

std::string peaks_text(const std::vector<CaseResult>& results, const MeasureOptions& options) {
  std::vector<double> copies, products;
  for (const CaseResult& result : results) {
    copies.push_back(result.memory_peak());
    products.push_back(result.arithmetic_peak());
  }
  const CaseResult& first = results.front();
  const std::int64_t side = options.peaks.matrix_side;
  return text_of(first.device, ", ", options.repeats, " repeats\nmemory peak: copy of ",
                 bytes_text(options.peaks.copy_bytes), ": ", range_text(copies, "GB/s"),
                 "\narithmetic peak: product of ", dtype_name(first.dtype), " matrices ", side, "x", side, ": ",
                 range_text(products, "GFLOP/s"), " by ", first.product.kernel, "\n");
}

/// "conv2d", "dense: bias_add", "conv2d gradient: conv2d_backward_input".
std::string label(const CaseResult& result, const KernelRow& row) {
  if (row.is_gradient) return result.op + " gradient: " + row.operation;
  return row.operation == result.op ? result.op : result.op + ": " + row.operation;
}

void add_rows(TextTable& table, const CaseResult& result) {
  for (const KernelRow& row : result.rows) {
    const bool computes = row.flops > 0;
    table.add_row(
        {label(result, row), sizes_text(result.shape.dims()), row.kernel, decimal_text(row.seconds.median * 1e3, 3),
         decimal_text(row.seconds.best * 1e3, 3), giga(row.bytes_per_second()), share(result.share_of_memory(row)),
         computes ? giga(row.flops_per_second()) : "", computes ? share(result.share_of_arithmetic(row)) : ""});
  }
}

Json json_of(const KernelRow& row) {
  return {{"operation", row.operation},
          {"gradient", row.is_gradient},
          {"kernel", row.kernel},
          {"median_seconds", row.seconds.median},
          {"best_seconds", row.seconds.best},
          {"bytes", row.bytes},
          {"flops", row.flops},
          {"bytes_per_second", row.bytes_per_second()},
          {"flops_per_second", row.flops_per_second()}};
}

Json json_of(const CaseResult& result) {
  Json settings = Json::object(), rows = Json::array();
  for (const auto& [name, value] : result.settings) settings[name] = value;
  for (const KernelRow& row : result.rows) {
    Json json = json_of(row);
    json["share_of_memory_peak"] = result.share_of_memory(row);
    json["share_of_arithmetic_peak"] = result.share_of_arithmetic(row);
    rows.push_back(std::move(json));
  }
  return {{"op", result.op},
          {"shape", result.shape.dims()},
          {"dtype", dtype_name(result.dtype)},
          {"settings", settings},
          {"memory_peak_bytes_per_second", result.memory_peak()},
          {"arithmetic_peak_flops_per_second", result.arithmetic_peak()},
          {"copy", json_of(result.copy)},
          {"product", json_of(result.product)},
          {"kernels", rows}};
}

}  // namespace

std::string report_text(const std::vector<CaseResult>& results, const MeasureOptions& options) {
  TextTable table({"operation", "shape", "kernel", "median ms", "best ms", "GB/s", "of peak", "GFLOP/s", "of peak"});
  for (const CaseResult& result : results) add_rows(table, result);
  return peaks_text(results, options) + "\n" + table.text();
}

std::string report_json(const std::vector<CaseResult>& results, const MeasureOptions& options) {
  Json cases = Json::array();
  for (const CaseResult& result : results) cases.push_back(json_of(result));
  const Json json = {{"device", results.front().device},
                     {"threads", results.front().threads},
                     {"repeats", options.repeats},
                     {"cases", cases}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string list_text() {
  TextTable table({"operation", "--shape", "default", "gradient", "bf16"});
  for (const BenchedOp& op : benched_ops()) {
    const CaseRequest request = case_request(op.name, {});
    const std::string settings = request.settings.summary();
    table.add_row({op.name, op.axes, op.shape, op.has_gradient ? "yes" : "", op.takes_bf16 ? "yes" : ""},
                  settings.empty() ? std::vector<std::string>{} : std::vector{settings});
  }
  return table.text();
}

}  // namespace sectionflow::bench
