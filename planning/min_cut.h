#pragma once

#include <cstdint>
#include <vector>

namespace sectionflow::planning {

/// A network of arcs with capacities, whose smallest cut between node 0, the source, and node 1, the sink, is wanted.
/// The arcs stay, their capacities may change from one cut to the next. Source: Dinic 1970, Algorithm for solution of a
/// problem of maximum flow in networks with power estimation.
class MinCut {
 public:
  static constexpr int kSource = 0, kSink = 1;

  /// Forgets all arcs.
  void reset(int num_nodes);
  /// The index of the new arc; `capacity` at least 0, and infinite for arcs that no cut may take.
  int add_arc(int from, int to, double capacity);
  void set_capacity(int arc, double capacity) { arcs_[2 * static_cast<std::size_t>(arc)].capacity = capacity; }

  /// What flows from source to sink: never more than the smallest cut, and less by rounding alone. Some cut must be
  /// finite.
  double solve();
  /// After `solve`: whether a node is on the sink's side of the smallest cut with the fewest nodes on the source's.
  bool on_sink_side(int node) const { return level_[static_cast<std::size_t>(node)] < 0; }

  /// Looks at arcs since this object was made: a measure of work that is the same on every machine.
  std::int64_t looks() const { return looks_; }

 private:
  struct Arc {
    int from = 0, to = 0;
    double capacity = 0;
  };
  void sort_arcs();
  int from(int place) const { return ways_[static_cast<std::size_t>(ways_[static_cast<std::size_t>(place)].back)].to; }
  bool find_levels();
  double augment();

  int num_nodes_ = 0;
  bool sorted_ = false;
  std::vector<Arc> arcs_;  // 2i, 2i + 1: an arc and its reverse
  // The arcs by the nodes that they leave, those of node i from first_[i] to first_[i + 1] - 1.
  struct Way {
    double left = 0;       // residual capacity
    int to = 0, back = 0;  // the node, and the place of the arc's reverse
  };
  std::vector<int> first_, place_;  // place_: of each arc
  std::vector<Way> ways_;
  std::vector<int> level_, next_, queue_, path_;
  double epsilon_ = 0;
  std::int64_t looks_ = 0;
};

}  // namespace sectionflow::planning
