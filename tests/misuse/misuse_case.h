#pragma once

#include <glog/logging.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "graph/ops/basic.h"
#include "runtime/session.h"
#include "tests/sections/small_net.h"
#include "tests/support/temporary_folder.h"

// A row of the misuse table: a wrong call gets its whole text, nothing has changed, and the next right call works.

namespace sectionflow::testing {

/// Folds what must not change into one number (FNV-1a).
class StateHash {
 public:
  StateHash& add(const void* bytes, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      hash_ = (hash_ ^ static_cast<const unsigned char*>(bytes)[i]) * 1099511628211U;
    return *this;
  }
  StateHash& add(const std::string& text) {
    return add(text.data(), text.size()).add(static_cast<std::int64_t>(text.size()));
  }
  StateHash& add(std::int64_t number) { return add(&number, sizeof(number)); }
  /// Nodes with names, groups, inputs and waits; groups; collections.
  StateHash& add(const Graph& graph) {
    add(graph.num_nodes()).add(graph.num_groups()).add(graph.num_control_edges()).add(graph.num_edits());
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      add(node.label()).add(node.group()).add(static_cast<std::int64_t>(node.random_ordinal()));
      for (const Value& input : node.inputs()) add(input.node().id()).add(input.output());
      for (const Node* control : node.control_inputs()) add(control->id());
      for (const Node* earlier : node.order_inputs()) add(earlier->id());
    }
    for (const auto& collection : {kVariables, kTrainableVariables}) {
      for (const Value& value : graph.values(collection)) add(value.node().id());
    }
    for (const auto& collection : {kUpdateOperations, kTrainingOperations}) {
      for (const Operation& operation : graph.operations(collection)) add(operation.node().id());
    }
    return *this;
  }
  /// Variables, slots and statistics, bit for bit; counters.
  StateHash& add(Session& session) {
    for (const auto& [name, tensor] : read_variables(session)) add(name).add(tensor.bytes(), tensor.num_bytes());
    add(static_cast<std::int64_t>(session.completed_cycles()));
    for (NodeId id = 0; id < session.graph().num_nodes(); ++id) add(session.executions(session.graph().node(id)));
    return *this;
  }
  StateHash& add(const GraphSectionManager& manager) {
    add(static_cast<std::int64_t>(manager.sections().size())).add(manager.is_prepared() ? 1 : 0);
    add(static_cast<std::int64_t>(manager.training_operations().size()));
    for (const auto& section : manager.sections()) {
      add(section->name()).add(manager.runs(section->index()).forward).add(manager.runs(section->index()).backward);
    }
    return *this;
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 14695981039346656037U;
};

using State = std::function<std::uint64_t()>;

inline State state_of(Graph& graph) {
  return [&] { return StateHash().add(graph).value(); };
}
inline State state_of(Graph& graph, GraphSectionManager& manager) {
  return [&] { return StateHash().add(graph).add(manager).value(); };
}
inline State state_of(SmallTraining& t) {
  return [&] { return StateHash().add(t.graph).add(t.manager).add(*t.session).value(); };
}

/// A line of the file that calls, as texts name it: "graph.cpp:12".
inline std::string line(int number, const char* file = __builtin_FILE()) {
  return std::filesystem::path(file).filename().string() + ":" + std::to_string(number);
}

/// Expects `call` to throw a Wanted with exactly this text, and the state to be the same afterwards.
template <class Wanted, class Call>
void expect_refused(const State& state, const Call& call, const std::string& golden) {
  const std::uint64_t before = state();
  EXPECT_EQ(whole_error_text<Wanted>(call), golden);
  EXPECT_EQ(state(), before) << "the refused call has changed something";
}

/// Expects that a small net trains as if nothing had been.
inline void expect_trains(SmallTraining& t) {
  SmallTraining undisturbed;
  const auto [wanted] =
      undisturbed.manager.run_full_cycle(*undisturbed.session, {undisturbed.net.loss}, undisturbed.net.feeds());
  const auto [found] = t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
  EXPECT_TRUE(bitwise_equal(wanted, found));
  EXPECT_EQ(first_difference(undisturbed.state(), t.state()), "");
}

/// Collects what glog writes.
class LogLines : public google::LogSink {
 public:
  LogLines() { google::AddLogSink(this); }
  ~LogLines() override { google::RemoveLogSink(this); }
  void send(google::LogSeverity severity, const char*, const char*, int, const google::LogMessageTime&,
            const char* message, std::size_t length) override {
    lines.push_back((severity == google::GLOG_WARNING ? "warning: " : "") + std::string(message, length));
    if (on_line) on_line();
  }
  std::vector<std::string> lines;
  std::function<void()> on_line;
};

}  // namespace sectionflow::testing
