#include "planning/problem.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace sectionflow::planning {
namespace {

/// "operation 3 'conv'", for error texts.
std::string operation_text(const Problem& problem, int index) {
  return text_of("operation ", index, " '", problem.operations[static_cast<std::size_t>(index)].name, "'");
}

void check_list(const Problem& problem, int operation, const std::vector<int>& list, const char* what,
                std::vector<int>& last_seen) {
  for (const int value : list) {
    SF_CHECK(value >= 0 && value < static_cast<int>(problem.values.size()), ArgumentError,
             operation_text(problem, operation), ": ", what, " ", value, " is none of the ", problem.values.size(),
             " values");
    int& last = last_seen[static_cast<std::size_t>(value)];
    SF_CHECK(last != operation, ArgumentError, operation_text(problem, operation), ": ", what, " ", value,
             " is listed twice", hint("list each value once"));
    last = operation;
  }
}

void check_overwrites(const Problem& problem, int v) {
  const Operation& operation = problem.operations[static_cast<std::size_t>(v)];
  const auto lists = [](const std::vector<int>& list, int value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  for (const auto& [input, output] : operation.overwrites) {
    SF_CHECK(lists(operation.inputs, input) && lists(operation.outputs, output), ArgumentError,
             operation_text(problem, v), " writes value ", output, " over ", input,
             ", wanted one of its outputs over one of its inputs");
    const std::int64_t from = problem.values[static_cast<std::size_t>(input)].bytes;
    const std::int64_t to = problem.values[static_cast<std::size_t>(output)].bytes;
    SF_CHECK(from == to, ArgumentError, operation_text(problem, v), " writes value ", output, " of ", to,
             " bytes over value ", input, " of ", from, ", wanted the same size");
  }
}

/// Whether all of it can be added up without overflow.
class ByteSum {
 public:
  bool add(std::int64_t bytes) {
    if (bytes > kMostProblemBytes - sum_) return false;
    sum_ += bytes;
    return true;
  }

 private:
  std::int64_t sum_ = 0;
};

}  // namespace

void check_problem(const Problem& problem) {
  const int num_operations = static_cast<int>(problem.operations.size());
  std::vector<int> last_input(problem.values.size(), -1), last_output(problem.values.size(), -1);
  ByteSum bytes;
  double seconds = 0;
  for (int v = 0; v < num_operations; ++v) {
    const Operation& operation = problem.operations[static_cast<std::size_t>(v)];
    SF_CHECK(std::isfinite(operation.seconds) && operation.seconds >= 0, ArgumentError, operation_text(problem, v),
             " takes ", operation.seconds, " seconds, wanted a number of at least 0");
    SF_CHECK(std::isfinite(seconds_again(operation)) && seconds_again(operation) >= 0, ArgumentError,
             operation_text(problem, v), " takes ", seconds_again(operation),
             " seconds when it is executed again, wanted a number of at least 0");
    seconds += std::max(operation.seconds, seconds_again(operation));
    SF_CHECK(std::isfinite(seconds), ArgumentError, operation_text(problem, v),
             ": times up to here have no finite sum");
    SF_CHECK(operation.workspace >= 0 && bytes.add(operation.workspace), ArgumentError, operation_text(problem, v),
             " has a workspace of ", operation.workspace,
             " bytes, wanted at least 0, and all sizes together below 2^53");
    check_list(problem, v, operation.inputs, "input", last_input);
    check_list(problem, v, operation.outputs, "output", last_output);
    for (const int value : operation.inputs) {
      const int producer = problem.values[static_cast<std::size_t>(value)].producer;
      SF_CHECK(producer < v, ArgumentError, operation_text(problem, v), " reads value ", value, " '",
               problem.values[static_cast<std::size_t>(value)].name, "', whose producer ", producer,
               " does not come before it");
    }
    for (const int value : operation.outputs) {
      const int producer = problem.values[static_cast<std::size_t>(value)].producer;
      SF_CHECK(producer == v, ArgumentError, operation_text(problem, v), " writes value ", value, " '",
               problem.values[static_cast<std::size_t>(value)].name, "', whose producer is ", producer);
    }
  }
  for (std::size_t i = 0; i < problem.values.size(); ++i) {
    const PlannedValue& value = problem.values[i];
    SF_CHECK(value.bytes >= 0 && bytes.add(value.bytes), ArgumentError, "value ", i, " '", value.name, "' has ",
             value.bytes, " bytes, wanted at least 0, and all sizes together below 2^53");
    SF_CHECK(value.producer >= -1 && value.producer < num_operations, ArgumentError, "value ", i, " '", value.name,
             "': its producer ", value.producer, " is none of the ", num_operations, " operations");
    SF_CHECK(value.producer == -1 || last_output[i] == value.producer, ArgumentError, "value ", i, " '", value.name,
             "': its producer ", value.producer, " does not write it", hint("list it among the operation's outputs"));
  }
  for (int v = 0; v < num_operations; ++v) check_overwrites(problem, v);
  for (const auto* pairs : {&problem.order, &problem.ends}) {
    for (const auto& [first, second] : *pairs) {
      SF_CHECK(first >= 0 && first < second && second < num_operations, ArgumentError, "operation ", first,
               " is to come before ", second, ", against the order in which they stand, or one is none of the ",
               num_operations, " operations");
      SF_CHECK(pairs == &problem.order || !problem.operations[static_cast<std::size_t>(second)].repeatable,
               ArgumentError, operation_text(problem, second), " ends the executions of ", first,
               " and may be executed again itself");
    }
  }
}

void check_link(const Link& link) {
  SF_CHECK(std::isfinite(link.bytes_per_second) && link.bytes_per_second >= 0 && std::isfinite(link.latency) &&
               link.latency >= 0 && std::isfinite(link.drag) && link.drag >= 0,
           ArgumentError, "a link of ", link.bytes_per_second, " bytes a second with ", link.latency,
           " seconds of latency and ", link.drag, " seconds of drag a byte, wanted numbers of at least 0",
           hint("0 bytes a second: no link"));
}

std::vector<std::vector<int>> readers_of_values(const Problem& problem) {
  std::vector<std::vector<int>> readers(problem.values.size());
  for (std::size_t v = 0; v < problem.operations.size(); ++v) {
    for (const int value : problem.operations[v].inputs) {
      readers[static_cast<std::size_t>(value)].push_back(static_cast<int>(v));
    }
  }
  return readers;
}

}  // namespace sectionflow::planning
