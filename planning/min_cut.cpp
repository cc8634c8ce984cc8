#include "planning/min_cut.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sectionflow::planning {

void MinCut::reset(int num_nodes) {
  num_nodes_ = num_nodes;
  arcs_.clear();
  sorted_ = false;
}

int MinCut::add_arc(int from, int to, double capacity) {
  arcs_.push_back({from, to, capacity});
  arcs_.push_back({to, from, 0});
  sorted_ = false;
  return static_cast<int>(arcs_.size() / 2) - 1;
}

void MinCut::sort_arcs() {
  if (sorted_) return;
  first_.assign(static_cast<std::size_t>(num_nodes_) + 1, 0);
  for (const Arc& arc : arcs_) ++first_[static_cast<std::size_t>(arc.from) + 1];
  for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  place_.resize(arcs_.size());
  ways_.resize(arcs_.size());
  next_.assign(first_.begin(), first_.end());
  for (std::size_t i = 0; i < arcs_.size(); ++i) place_[i] = next_[static_cast<std::size_t>(arcs_[i].from)]++;
  for (std::size_t i = 0; i < arcs_.size(); ++i) {
    ways_[static_cast<std::size_t>(place_[i])] = {0, arcs_[i].to, place_[i ^ 1]};
  }
  sorted_ = true;
}

bool MinCut::find_levels() {
  level_.assign(static_cast<std::size_t>(num_nodes_), -1);
  level_[kSource] = 0;
  queue_.assign(1, kSource);
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const auto node = static_cast<std::size_t>(queue_[i]);
    looks_ += first_[node + 1] - first_[node];
    for (int k = first_[node]; k < first_[node + 1]; ++k) {
      const Way& way = ways_[static_cast<std::size_t>(k)];
      const auto to = static_cast<std::size_t>(way.to);
      if (way.left <= epsilon_ || level_[to] >= 0) continue;
      level_[to] = level_[node] + 1;
      queue_.push_back(way.to);
    }
  }
  return level_[kSink] >= 0;
}

/// A blocking flow along arcs that go one level up, by a walk that goes back over nodes from which the sink is not
/// reached.
double MinCut::augment() {
  double sum = 0;
  next_.assign(first_.begin(), first_.end());
  path_.clear();
  int node = kSource;
  for (;;) {
    if (node == kSink) {
      double flow = std::numeric_limits<double>::infinity();
      for (const int k : path_) flow = std::min(flow, ways_[static_cast<std::size_t>(k)].left);
      std::size_t stop = path_.size();
      for (std::size_t i = path_.size(); i-- > 0;) {
        Way& way = ways_[static_cast<std::size_t>(path_[i])];
        way.left -= flow;
        ways_[static_cast<std::size_t>(way.back)].left += flow;
        if (way.left <= epsilon_) stop = i;
      }
      looks_ += static_cast<std::int64_t>(path_.size());
      sum += flow;
      if (stop == path_.size()) return sum;  // only where every arc is infinite
      node = from(path_[stop]);
      path_.resize(stop);
      continue;
    }
    const auto at = static_cast<std::size_t>(node);
    bool forward = false;
    for (; next_[at] < first_[at + 1]; ++next_[at]) {
      const Way& way = ways_[static_cast<std::size_t>(next_[at])];
      ++looks_;
      if (way.left <= epsilon_ || level_[static_cast<std::size_t>(way.to)] != level_[at] + 1) continue;
      path_.push_back(next_[at]);
      node = way.to;
      forward = true;
      break;
    }
    if (forward) continue;
    if (node == kSource) return sum;
    level_[at] = std::numeric_limits<int>::max();
    node = from(path_.back());
    path_.pop_back();
    ++next_[static_cast<std::size_t>(node)];
  }
}

double MinCut::solve() {
  sort_arcs();
  double largest = 0;
  for (std::size_t i = 0; i < arcs_.size(); ++i) {
    const double capacity = arcs_[i].capacity;
    ways_[static_cast<std::size_t>(place_[i])].left = capacity;
    if (std::isfinite(capacity)) largest = std::max(largest, capacity);
  }
  // What rounding leaves of a full arc carries nothing.
  epsilon_ = largest * 1e-13;
  double flow = 0;
  while (find_levels()) flow += augment();
  return flow;
}

}  // namespace sectionflow::planning
