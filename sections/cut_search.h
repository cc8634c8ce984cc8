#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "planning/cuts.h"
#include "schedule/planning_tools.h"
#include "sections/section_schedule.h"
#include "swap/profile.h"

namespace sectionflow {

/// The cycle whose borders are looked for.
struct CutRequest {
  int num_places = 0;
  std::vector<int> place_of{};  ///< by node: of operations, their gradients and updates; below 0: outside of all
  GroupId first_group = 0;      ///< of as many as there are places, which no node but those to be cut has
  Value loss{};                 ///< is fetched
  std::vector<Operation> training{};
  const Profile* profile = nullptr;  ///< nullptr: the nominal machine
  bool keeps_interiors = false;      ///< sections compute nothing again (InteriorPolicy::keep, swap)
};

/// Of a cut into so many sections whose groups the nodes have.
CycleRequest cycle_of_cut(const CutRequest& request, std::size_t num_sections);

/// A cut, and what the planner of programs says of its cycle.
struct FoundCut {
  planning::Borders borders{};
  std::size_t peak_bytes = 0;  ///< of device memory, variables included
  double seconds = 0;          ///< predicted
  bool fits = false;           ///< in device memory, with all that is kept on the device
};

/// The group of each node in a cut: `first_group` and those that follow it, one a section.
std::vector<GroupId> groups_of_cut(const std::vector<int>& place_of, const planning::Borders& borders,
                                   GroupId first_group);

/// The cut into so many sections that takes the least memory, and of such the quickest: never more than equal parts by
/// operations take. Cuts that an estimate finds good are drafted as the final program is going to be. Of the graph it
/// changes the groups.
FoundCut lowest_cut(Graph& graph, PlanningTools& tools, const CutRequest& request, int sections);

/// The cut into any number of sections that takes the least memory of all that are tried, 2 to 32 equal parts by
/// operations among them.
FoundCut lowest_cut(Graph& graph, PlanningTools& tools, const CutRequest& request);

/// The quickest cut that was found to fit in device memory, a single section and 2 to 32 equal parts by operations
/// among them; where none does the lowest. It fits, or a quicker one does, where there is as much device memory as it
/// takes.
FoundCut fitting_cut(Graph& graph, PlanningTools& tools, const CutRequest& request);

}  // namespace sectionflow
