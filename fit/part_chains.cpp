#include "fit/part_chains.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "fit/list_dependencies.h"
#include "fit/list_units.h"
#include "graph/ops/basic.h"
#include "schedule/node_parts.h"

namespace sectionflow {
namespace {

/// A value is large if it is at least this share of what the list takes beside the variables.
constexpr std::size_t kLargeShare = 16;

/// Whether chains can be told from the list.
bool is_plain(const InstructionList& list) {
  std::set<NodeId> nodes;
  const auto is_once = [&](const Instruction& i) {
    if (is_transfer(i.kind) || i.replay || i.parts > 1) return false;
    return (i.kind != StepKind::compute && i.kind != StepKind::feed) || nodes.insert(i.node).second;
  };
  return list.entries.empty() && list.half >= static_cast<int>(list.instructions.size()) &&
         std::all_of(list.instructions.begin(), list.instructions.end(), is_once);
}

}  // namespace

class PartChains::Finder {
 public:
  Finder(const InstructionList& list, const Draft& draft, const PlanningTools& tools)
      : list_(list),
        graph_(tools.graph()),
        dependencies_(list, tools.graph()),
        large_(std::max<std::size_t>(draft.plan.peak_bytes / kLargeShare, 1)),
        parts_(list.instructions.size()),
        root_(list.instructions.size()) {
    std::iota(root_.begin(), root_.end(), 0);
    for (int i = 0; i < count(); ++i) groups_.push_back({i});
  }

  std::vector<Chain> chains() {
    for (int i = 0; i < count(); ++i) note_parts(i);
    for (int i = 0; i < count(); ++i) note_readers(i);
    for (const auto& [maker, readers] : readers_) join_readers(maker, readers);
    std::map<int, std::vector<int>> joined;
    for (int i = 0; i < count(); ++i) {
      if (parts_[at(i)]) joined[root_of(i)].push_back(i);
    }
    std::vector<Chain> chains;
    for (auto& [root, operations] : joined) {
      while (operations.size() > 1) {
        std::vector<int> rest = move_together(operations);
        Chain chain = chain_of(operations);
        if (!chain.large.empty() && chain.most > 1) {
          settle(chain);
          chains.push_back(std::move(chain));
        }
        operations = std::move(rest);
      }
    }
    return chains;
  }

  /// The list's instructions, those of a chain side by side.
  std::vector<int> order() const {
    std::vector<int> order;
    for (const std::vector<int>& group : groups_) order.insert(order.end(), group.begin(), group.end());
    return order;
  }

 private:
  int count() const { return static_cast<int>(list_.instructions.size()); }
  const Instruction& instruction(int i) const { return list_.instructions[at(i)]; }
  bool is_identity(int i) const {
    return instruction(i).kind == StepKind::compute && graph_.is_identity(instruction(i).node);
  }
  int root_of(int i) {
    while (root_[at(i)] != i) i = root_[at(i)] = root_[at(root_[at(i)])];
    return i;
  }

  void note_parts(int i) {
    if (instruction(i).kind != StepKind::compute || is_identity(i)) return;
    const OpDef& op = graph_.graph().node(instruction(i).node).op();
    if (op.recompute != Recompute::pure || op.is_update()) return;
    std::optional<NodeParts> parts = parts_of_node(graph_, instruction(i).node);
    if (parts && parts->rows % parts->uses.block == 0 && parts->most() > 1) parts_[at(i)] = std::move(parts);
  }

  /// The operation whose output a value is, by any name; -1 for what is fed or a variable.
  int maker_of(Value value) const {
    int maker = dependencies_.maker(value);
    while (maker >= 0 && is_identity(maker)) {
      maker = dependencies_.maker(graph_.reads(instruction(maker).node).front());
    }
    return maker;
  }

  struct Reader {
    int place = 0;
    bool takes_rows = false;
    int output = 0;
  };

  void note_readers(int i) {
    if (instruction(i).kind == StepKind::feed || is_identity(i)) return;
    const auto note = [&](Value value, bool takes_rows) {
      const int maker = maker_of(value);
      if (maker >= 0) readers_[maker].push_back({i, takes_rows, first_name(value).output()});
    };
    if (instruction(i).kind != StepKind::compute) return note(instruction(i).fetched, false);
    const Node& node = graph_.graph().node(instruction(i).node);
    for (std::size_t input = 0; input < node.inputs().size(); ++input) {
      if (graph_.uses(instruction(i).node)[input] != InputUse::data) continue;
      note(node.inputs()[input], parts_[at(i)] && parts_[at(i)]->uses.inputs[input] == PartUse::rows);
    }
  }

  Value first_name(Value value) const {
    for (int maker = dependencies_.maker(value); maker >= 0 && is_identity(maker); maker = dependencies_.maker(value)) {
      value = graph_.reads(instruction(maker).node).front();
    }
    return value;
  }

  /// The outputs of an operation that are large, and that all others read by rows: whoever reads one goes with it.
  void join_readers(int maker, const std::vector<Reader>& readers) {
    if (!parts_[at(maker)]) return;
    const std::vector<TensorType>& types = graph_.types(instruction(maker).node);
    for (int output = 0; output < static_cast<int>(types.size()); ++output) {
      const bool has_rows = parts_[at(maker)]->uses.outputs[at(output)] == PartUse::rows;
      if (!has_rows || types[at(output)].bytes() < large_) continue;
      const auto reads_it = [&](const Reader& reader) { return reader.output == output; };
      const bool joins = std::all_of(readers.begin(), readers.end(), [&](const Reader& reader) {
        return !reads_it(reader) || (reader.takes_rows && may_share_parts(maker, reader.place));
      });
      if (!joins) continue;
      for (const Reader& reader : readers) {
        if (reads_it(reader)) root_[at(root_of(reader.place))] = root_of(maker);
      }
    }
  }

  bool may_share_parts(int a, int b) const { return std::gcd(parts_[at(a)]->most(), parts_[at(b)]->most()) > 1; }

  /// Moves the operations, which stand in the list's order, side by side, with what depends on none of them before them
  /// and the rest behind. One that waits for somebody outside who waits for one of them is taken out, and all behind
  /// it: they are the result.
  std::vector<int> move_together(std::vector<int>& operations) {
    std::set<int> chain(operations.begin(), operations.end());
    std::set<int> behind;
    std::vector<int> taken_out;
    const auto waits_for = [&](int i, const std::set<int>& others) {
      const std::set<int>& before = dependencies_.before(i);
      return std::any_of(before.begin(), before.end(), [&](int earlier) { return others.contains(earlier); });
    };
    for (const std::vector<int>& group : groups_) {
      const int i = group.front();
      const auto group_waits_for = [&](const std::set<int>& others) {
        return std::any_of(group.begin(), group.end(), [&](int member) { return waits_for(member, others); });
      };
      const bool is_outside = group_waits_for(behind);
      if (chain.contains(i) && (!taken_out.empty() || is_outside || needs_all_parts(i, chain))) {
        taken_out.push_back(i);
        chain.erase(i);
      } else if (group.size() == 1 && !chain.contains(i) && is_identity(i) && !is_outside && waits_for(i, chain)) {
        chain.insert(i);  // another name goes wherever the value goes
      }
      if (!chain.contains(i) && (is_outside || group_waits_for(chain))) behind.insert(group.begin(), group.end());
    }
    std::erase_if(operations, [&](int i) { return !chain.contains(i); });
    together_.assign(chain.begin(), chain.end());
    behind_ = std::move(behind);
    return taken_out;
  }

  /// Whether it reads what is there only behind the last part of one of them: a sum, or rows that it takes whole.
  bool needs_all_parts(int i, const std::set<int>& chain) const {
    return std::any_of(readers_.begin(), readers_.end(), [&](const auto& of_maker) {
      const auto& [maker, readers] = of_maker;
      return chain.contains(maker) &&
             std::any_of(readers.begin(), readers.end(), [&, maker = maker](const Reader& reader) {
               return reader.place == i &&
                      (!reader.takes_rows || parts_[at(maker)]->uses.outputs[at(reader.output)] != PartUse::rows);
             });
    });
  }

  Chain chain_of(const std::vector<int>& operations) {
    Chain chain{.instructions = together_, .operations = operations};
    std::int64_t most = 0;
    for (const int i : operations) most = std::gcd(most, parts_[at(i)]->most());
    chain.most = static_cast<int>(std::min<std::int64_t>(most, 1 << 20));
    const std::set<int> inside(operations.begin(), operations.end());
    for (const int i : operations) {
      const std::vector<TensorType>& types = graph_.types(instruction(i).node);
      for (int output = 0; output < static_cast<int>(types.size()); ++output) {
        if (!is_inside(i, output, inside)) continue;
        const Value value = graph_.graph().node(instruction(i).node).output(output);
        chain.inside.push_back(value);
        if (types[at(output)].bytes() >= large_) chain.large.push_back(value);
      }
    }
    return chain;
  }

  bool is_inside(int maker, int output, const std::set<int>& inside) const {
    if (parts_[at(maker)]->uses.outputs[at(output)] != PartUse::rows) return false;
    const auto found = readers_.find(maker);
    return found == readers_.end() || std::all_of(found->second.begin(), found->second.end(), [&](const Reader& r) {
             return r.output != output || (r.takes_rows && inside.contains(r.place));
           });
  }

  void settle(const Chain& chain) {
    const std::set<int> inside(chain.instructions.begin(), chain.instructions.end());
    std::vector<std::vector<int>> groups, behind;
    for (std::vector<int>& group : groups_) {
      if (inside.contains(group.front())) continue;
      (behind_.contains(group.front()) ? behind : groups).push_back(std::move(group));
    }
    groups.push_back(chain.instructions);
    groups.insert(groups.end(), std::make_move_iterator(behind.begin()), std::make_move_iterator(behind.end()));
    groups_ = std::move(groups);
  }

  const InstructionList& list_;
  const ConcreteGraph& graph_;
  const ListDependencies dependencies_;
  const std::size_t large_;
  std::vector<std::optional<NodeParts>> parts_;  // of each instruction that may run in parts
  std::map<int, std::vector<Reader>> readers_;   // of each operation's outputs
  std::vector<int> root_;                        // operations that are joined
  std::vector<std::vector<int>> groups_;         // the order as it is by now; a chain that is settled is a group
  std::vector<int> together_;                    // what was moved together last
  std::set<int> behind_;                         // and what is to stand behind it
};

PartChains::PartChains(const InstructionList& list, const Draft& draft, const PlanningTools& tools)
    : list_(list), tools_(tools) {
  if (tools.device().kind() != DeviceKind::cpu || !is_plain(list)) return;
  Finder finder(list, draft, tools);
  chains_ = finder.chains();
  order_ = finder.order();
}

int PartChains::next_number(int least) const {
  int next = 0;
  for (const Chain& chain : chains_) {
    int parts = least;
    while (parts < chain.most && chain.most % parts != 0) ++parts;
    if (parts <= chain.most && (next == 0 || parts < next)) next = parts;
  }
  return next;
}

/// The greatest number of parts that divides the chain's, and is no more than asked for.
int PartChains::parts_of(const Chain& chain, int parts) const {
  int most = std::min(parts, chain.most);
  while (chain.most % most != 0) --most;
  return most;
}

InstructionList PartChains::list_in(int parts) const {
  InstructionList made{.passes = list_.passes, .instructions = {}, .entries = {}};
  std::map<int, const Chain*> chain_of;
  for (const Chain& chain : chains_) {
    for (const int i : chain.instructions) chain_of[i] = &chain;
  }
  int pass = 0;  // of what stands behind a chain none is of an earlier one
  for (std::size_t next = 0; next < order_.size();) {
    const auto found = chain_of.find(order_[next]);
    if (found == chain_of.end()) {
      Instruction instruction = list_.instructions[at(order_[next++])];
      instruction.pass = pass = std::max(pass, instruction.pass);
      made.instructions.push_back(instruction);
      continue;
    }
    const Chain& chain = *found->second;
    const int num_parts = parts_of(chain, parts);
    for (const int i : chain.instructions) pass = std::max(pass, list_.instructions[at(i)].pass);
    for (int part = 0; part < num_parts; ++part) {
      for (const int i : chain.instructions) {
        Instruction instruction = list_.instructions[at(i)];
        instruction.pass = pass;
        instruction.part = part;
        instruction.parts = num_parts;
        made.instructions.push_back(instruction);
      }
    }
    next += chain.instructions.size();
  }
  made.half = static_cast<int>(made.instructions.size());
  return made;
}

std::set<NodeId> PartChains::nodes() const {
  std::set<NodeId> nodes;
  for (const Chain& chain : chains_) {
    for (const int i : chain.operations) nodes.insert(list_.instructions[at(i)].node);
  }
  return nodes;
}

std::set<Value> PartChains::values() const {
  std::set<Value> values;
  for (const Chain& chain : chains_) values.insert(chain.inside.begin(), chain.inside.end());
  return values;
}

std::vector<std::string> PartChains::notes(int parts, const std::string& who) const {
  std::vector<std::string> notes;
  const auto node_of = [&](int i) -> const Node& {
    return tools_.graph().graph().node(list_.instructions[at(i)].node);
  };
  for (const Chain& chain : chains_) {
    std::string values;
    for (const Value& value : chain.large) {
      values += text_of(values.empty() ? "'" : ", '", value.name(), "' (",
                        bytes_text(tools_.graph().type(value).bytes()), ")");
    }
    notes.push_back(text_of(who, ": ", chain.operations.size(), " operations, '",
                            node_of(chain.operations.front()).name(), "' to '", node_of(chain.operations.back()).name(),
                            "', run in ", parts_of(chain, parts), " parts one after the other, so that ", values,
                            chain.large.size() == 1 ? " is" : " are", " never whole"));
  }
  return notes;
}

}  // namespace sectionflow
