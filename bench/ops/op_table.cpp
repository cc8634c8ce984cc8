#include "bench/ops/op_table.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace sectionflow::bench {
namespace {

/// "; did you mean 'conv2d'?" where something is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const auto nearest = nearest_spelling(word, known);
  return nearest ? "; did you mean '" + *nearest + "'?" : "";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

void check_rank(const BenchedOp& op, const Shape& shape) {
  const bool is_open = op.axes.find("...") != std::string::npos;
  // One name more than there are commas; "..." is a name that stands for none.
  const int names = 1 + static_cast<int>(std::count(op.axes.begin(), op.axes.end(), ','));
  const int least = names - (is_open ? 1 : 0);
  SF_CHECK(is_open ? shape.rank() >= least : shape.rank() == least, ShapeError, op.name, ": --shape ",
           sizes_text(shape.dims()), " has ", shape.rank(), " axes; wanted ", op.axes,
           hint("as in --shape ", op.shape));
}

Settings settings_of(const BenchedOp& op, const SettingTexts& given) {
  std::vector<std::string> known;
  std::vector<std::pair<std::string, std::string>> texts;
  for (const DefaultSetting& setting : op.settings) {
    const auto said = given.find(setting.name);
    texts.emplace_back(setting.name, said == given.end() ? setting.value : said->second);
    known.emplace_back(std::string("--") + setting.name);
  }
  for (const auto& [name, value] : given) {
    const bool is_known = std::find(known.begin(), known.end(), "--" + name) != known.end();
    SF_CHECK(is_known, ArgumentError, op.name, " has no --", name,
             hint(known.empty() ? "it has no settings" : "it has " + joined(known)));
  }
  return {op.name, std::move(texts)};
}

}  // namespace

const std::vector<BenchedOp>& benched_ops() {
  static const std::vector<BenchedOp> ops = [] {
    std::vector<BenchedOp> all;
    add_layer_ops(all);
    add_window_ops(all);
    add_elementwise_ops(all);
    add_moving_ops(all);
    add_update_ops(all);
    return all;
  }();
  return ops;
}

const BenchedOp& benched_op(const std::string& name) {
  std::vector<std::string> names;
  for (const BenchedOp& op : benched_ops()) {
    if (op.name == name) return op;
    names.push_back(op.name);
  }
  throw ArgumentError(error_text_of("'", name, "' is no operation that is timed here", did_you_mean(name, names),
                                    hint("--list shows them all")));
}

CaseRequest case_request(const std::string& name, const CaseWords& words) {
  const BenchedOp& op = benched_op(name);
  SF_CHECK(words.dtype == Dtype::f32 || op.takes_bf16, ArgumentError, name, ": --dtype ", dtype_name(words.dtype),
           "; wanted f32, the only dtype that it is timed in");
  SF_CHECK(!words.gradient || op.has_gradient, ArgumentError, name, " has no gradient operations",
           hint("leave out --gradient"));
  CaseRequest request{.op = &op,
                      .shape = Shape(parse_sizes(words.shape.empty() ? op.shape : words.shape, name + ": --shape")),
                      .dtype = words.dtype,
                      .settings = settings_of(op, words.settings),
                      .gradient = words.gradient};
  check_rank(op, request.shape);
  return request;
}

Dtype benched_dtype(const std::string& name) {
  if (name == "f32") return Dtype::f32;
  if (name == "bf16") return Dtype::bf16;
  const std::vector<std::string> known = {"f32", "bf16"};
  throw ArgumentError(error_text_of("--dtype '", name, "'; wanted f32 or bf16", did_you_mean(name, known)));
}

}  // namespace sectionflow::bench
