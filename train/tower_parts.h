#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/towers.h"

namespace sectionflow {

/// What a tower is made of.
struct Tower::Parts {
  Parts(int of_tower, std::string on_device) : number(of_tower), device(std::move(on_device)) {}

  const int number;
  const std::string device;
  Graph graph;
  GraphSectionManager manager{graph};
  TowerOutputs outputs;
  std::shared_ptr<Communicator> communicator;
  std::optional<Session> session;  // made, used and destroyed on the tower's thread
};

/// The devices with the threads that they do not say. Throws: ArgumentError for none; ArgumentError (SF-E036) for those
/// that would leave towers with different bits, two of one name, and a communicator.
std::vector<SessionOptions> devices_of_towers(std::vector<SessionOptions> devices);

/// Throws: ArgumentError for inputs that are no placeholders with a first axis, outputs of another graph, and updates
/// of another number of ranks than there are towers (SF-E036).
void check_tower(const Graph& graph, const std::vector<std::string>& inputs, const TowerOutputs& outputs, int towers);

/// Whether outputs of two graphs are the same, by the numbers of nodes.
bool same_outputs(const TowerOutputs& a, const TowerOutputs& b);

}  // namespace sectionflow
